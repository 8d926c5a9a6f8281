import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { jsonList } from '../../src/http/replies.js';

const shown = (item: unknown) => ({ item });
const textOf = async (items: readonly unknown[]) => (await jsonList(items, shown)).bytes.toString();

t.test('serializes lists of any length as JSON.stringify does', async (t) => {
  const lists = [[], [1], ['é\ud83d\ude00"\\'.repeat(30_000), 'x', null], Array.from({ length: 5_000 }, (_, i) => 'é'.repeat(i % 99))];
  for (const list of lists) t.equal(await textOf(list), `${JSON.stringify(list.map(shown))}\n`, `${list.length} items`);
}); // prettier-ignore

t.test('yields to other work while it serializes a long list', async (t) => {
  let at = performance.now();
  performance.now = () => (at += 5);
  t.teardown(() => void Reflect.deleteProperty(performance, 'now'));
  let written: string | undefined;
  void textOf([1, 2, 3, 4, 5]).then((text) => (written = text));
  // Each item ends a time slice.
  for (let turn = 1; turn <= 5; turn++) {
    t.equal(written, undefined, `turn ${turn}`);
    await setImmediate();
  }
  await setImmediate();
  t.equal(written, '[{"item":1},{"item":2},{"item":3},{"item":4},{"item":5}]\n');
});
