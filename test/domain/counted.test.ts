import t from 'tap';
import { counted } from '../../src/util/text.js';

t.test('only one of a kind is singular', async (t) => {
  t.same(
    [0, 1, 2].map((number) => counted(number, 'record')),
    ['0 records', '1 record', '2 records'],
  );
});
