import t from 'tap';
import { isOneEdit } from '../../src/util/text.js';
import { forEachRow } from '../helpers/table.js';

const LETTERS = ['a', 'b', 'z', '\u{1f511}'];

/** All texts that are one edit away from another. */
function editsOf(text: string): Set<string> {
  const edits = new Set<string>();
  const characters = Array.from(text);
  for (let i = 0; i <= characters.length; i++) {
    const before = characters.slice(0, i).join('');
    const [first = '', second = '', ...rest] = characters.slice(i);
    const after = first + second + rest.join('');
    if (first !== '') edits.add(before + second + rest.join(''));
    if (second !== '') edits.add(before + second + first + rest.join(''));
    for (const letter of LETTERS) {
      edits.add(before + letter + after);
      if (first !== '') edits.add(before + letter + second + rest.join(''));
    }
  }
  edits.delete(text);
  return edits;
}

function* textsOf(most: number): Generator<string> {
  yield '';
  if (most > 0) for (const start of textsOf(most - 1)) for (const letter of LETTERS) yield start + letter;
}

t.test('detects a single edit, for every pair of short texts', async (t) => {
  const texts = [...new Set(textsOf(4))];
  forEachRow(texts, (a) => {
    const edits = editsOf(a);
    const wrong = texts.filter((b) => isOneEdit(a, b) !== edits.has(b));
    t.same(wrong, [], a);
  });
});
