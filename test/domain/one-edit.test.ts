import t from 'tap';
import { isOneEdit } from '../../src/domain/one-edit.js';
import { forEachRow } from '../helpers/table.js';

const LETTERS = 'abz';

/** Every text that one edit makes of another. */
function editsOf(text: string): Set<string> {
  const edits = new Set<string>();
  for (let i = 0; i <= text.length; i++) {
    const [before, after] = [text.slice(0, i), text.slice(i)];
    if (after !== '') edits.add(before + after.slice(1));
    if (after.length > 1) edits.add(`${before}${after[1]}${after[0]}${after.slice(2)}`);
    for (const letter of LETTERS) {
      edits.add(before + letter + after);
      if (after !== '') edits.add(before + letter + after.slice(1));
    }
  }
  edits.delete(text);
  return edits;
}

function* textsOf(most: number): Generator<string> {
  yield '';
  if (most > 0) for (const start of textsOf(most - 1)) for (const letter of LETTERS) yield start + letter;
}

t.test('one edit is one: of every two short texts', async (t) => {
  const texts = [...new Set(textsOf(4))];
  forEachRow(texts, (a) => {
    const edits = editsOf(a);
    const wrong = texts.filter((b) => isOneEdit(a, b) !== edits.has(b));
    t.same(wrong, [], a);
  });
});
