import { PassThrough, Readable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import type { IncomingRequest } from '../../src/http/exchange.js';
import { BodyBudget, readBody } from '../../src/http/read-body.js';
import { refusalReply } from '../../src/http/replies.js';
import { until } from '../helpers/until.js';

const LIMITS = { body_size: 10, body_timeout: 60_000 };
const asRequest = (stream: Readable) =>
  Object.assign(stream, { rawHeaders: [] }) as unknown as IncomingRequest;
const bodyOf = (...pieces: string[]) => asRequest(Readable.from(pieces.map((piece) => Buffer.from(piece))));
/** Returns the body, or the status of its refusal; null if the client disconnected. */
async function read(req: IncomingRequest, budget: BodyBudget | null = null, limits = LIMITS, network = 'A') {
  const body = await readBody(req, undefined, limits, budget === null ? null : { budget, network });
  if (body === undefined) return null;
  return Buffer.isBuffer(body) ? body.toString() : refusalReply(body).status;
}

t.test('a body of unknown length ends with its stream, its limit, its client or its timeout', async (t) => {
  t.equal(await read(bodyOf('01234', '56789')), '0123456789');
  t.equal(await read(bodyOf('01234', '56789', 'x')), 413);
  const gone = new PassThrough();
  const left = read(asRequest(gone));
  gone.destroy();
  t.equal(await left, null);
  t.equal(await read(asRequest(new PassThrough()), null, { ...LIMITS, body_timeout: 5 }), 408);
});

t.test('bodies without a credential share a budget, and release it however they end', async (t) => {
  const budget = new BodyBudget(12, 2);
  const [first, second] = [new PassThrough(), new PassThrough()];
  const waiting = [read(asRequest(first), budget), read(asRequest(second), budget)];
  t.equal(await read(bodyOf('x'), budget), 503, 'too many at once');
  t.equal(await read(bodyOf('x')), 'x', 'a body with a credential is exempt');
  first.end('01234567');
  t.equal(await waiting[0], '01234567');
  second.write('0123456');
  t.equal(await read(bodyOf('012345'), budget), 503, 'too many bytes at once');
  second.destroy();
  t.equal(await waiting[1], null);
  t.equal(await read(bodyOf('0123456789'), budget), '0123456789', 'all of the budget is released');
  const slow = [new PassThrough(), new PassThrough()];
  const kept = slow.map((body) => read(asRequest(body), budget));
  t.equal(await read(bodyOf('x'), budget, LIMITS, 'B'), 'x', 'another network has room');
  t.equal(await kept[0], 503, 'which the oldest body of the first one gave up');
  slow[1]?.end();
  t.equal(await kept[1], '');
});

t.test('a body occupies its own bytes, not those of the reads that its chunks came in', async (t) => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const limits = { body_size: 1_000, body_timeout: 60_000 };
  const body = new PassThrough();
  const done = read(asRequest(body), new BodyBudget(1_000, 1), limits);
  gc();
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 999; i++) body.write(Buffer.alloc(65_536, 48 + (i % 10)).subarray(0, 1));
  // V8 frees collected buffers in the background.
  await until(() => {
    gc();
    return process.memoryUsage().arrayBuffers - before < 1_048_576;
  }, 'little memory');
  body.end('!');
  t.equal(await done, `${'0123456789'.repeat(100).slice(0, 999)}!`);
});
