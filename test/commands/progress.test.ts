import t from 'tap';
import { clearProgress, showProgress } from '../../src/commands/terminal/output.js';

t.test('an error after a line of progress gets a line of its own', async (t) => {
  const written = t.capture(process.stderr, 'write', () => true);
  t.intercept(process.stderr, 'isTTY', { value: true });
  showProgress('1000 records');
  clearProgress();
  clearProgress();
  t.same(
    written().map(({ args }) => args[0]),
    ['\r\u001b[K1000 records', '\r\u001b[K'],
  );
});

t.test('nothing is shown in a pipe or a log', async (t) => {
  const written = t.capture(process.stderr, 'write', () => true);
  t.intercept(process.stderr, 'isTTY', { value: false });
  showProgress('1000 records');
  clearProgress();
  t.same(written(), []);
});
