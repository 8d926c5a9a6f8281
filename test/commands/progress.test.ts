import t from 'tap';
import { clearProgress, Progress } from '../../src/commands/terminal/output.js';

t.test('an error after a line of progress gets a line of its own', async (t) => {
  const written = t.capture(process.stderr, 'write', () => true);
  t.intercept(process.stderr, 'isTTY', { value: true });
  const progress = new Progress();
  progress.step('1000 records');
  clearProgress();
  clearProgress();
  progress.done();
  t.same(
    written().map(({ args }) => args[0]),
    ['\r\u001b[K1000 records', '\r\u001b[K'],
  );
});

t.test('nothing is shown in a pipe or a log', async (t) => {
  const written = t.capture(process.stderr, 'write', () => true);
  t.intercept(process.stderr, 'isTTY', { value: false });
  const progress = new Progress();
  progress.step('1000 records');
  progress.done();
  clearProgress();
  t.same(written(), []);
});
