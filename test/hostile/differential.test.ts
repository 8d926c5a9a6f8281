import * as fc from 'fast-check';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { serveHttp } from '../helpers/http.js';
import { options, Share, told } from '../helpers/property.js';
import { readAnswers } from '../helpers/strict.mjs';
import { talk } from '../helpers/wire.mjs';
import { requests } from './requests.js';

/** A request as a server received it. */
interface Received {
  readonly method: string;
  readonly target: string;
  readonly fields: readonly (readonly [string, string])[];
  readonly body: string;
}

const LIMIT_MS = 8_000;
/**
 * Complete requests are answered within this time, even on a busy machine; incomplete ones are
 * given up after it.
 */
const QUIET_MS = 1_000;
/** Header fields that are hop-by-hop, set only by Latchkey, or carry a credential. */
const NOT_CARRIED =
  /^(?:host|connection|keep-alive|proxy-connection|te|trailer|upgrade|expect|content-length|transfer-encoding|service-key|forwarded|x-real-ip|x-request-id|x-forwarded-.*|x-auth-(?:user|customer)-id|x-auth-(?:login|role|scope|services|credential|token-id))$/;

const direct = await startRecorder();
const upstream = await startRecorder();
const { url, token } = await startFixture(t, {
  upstream: upstream.url,
  // The subject is how bodies are framed, not where they are allowed.
  routes: [{ path: '/diff/*', action: 'api', body_on_read: 'allow' }],
});
const key = await token('superuser');
const ports = { direct: Number(new URL(direct.url).port), latchkey: Number(new URL(url).port) };

/** Starts a plain Node server that records its requests and answers 200. */
async function startRecorder() {
  const received: Received[] = [];
  const { url: serverUrl } = await serveHttp(t, (req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { method = '', url: target = '', rawHeaders } = req;
      const fields = rawHeaders.flatMap((name, i) =>
        i % 2 === 0 ? [[name, rawHeaders[i + 1] ?? ''] as const] : [],
      );
      received.push({ method, target, fields, body: Buffer.concat(chunks).toString('latin1') });
      res.end('ok');
    });
  });
  return {
    url: serverUrl,
    /** Returns the requests received since the last call. */
    take: () => received.splice(0),
  };
}

const runOf = ({ fields }: Received) => fields.find(([name]) => name === 'X-Run')?.[1] ?? 'none';

/** The fields that must arrive: all that were sent, except hop-by-hop ones. */
function endToEnd({ fields }: Received): string[] {
  const listed = fields
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.split(','))
    .map((option) => option.trim().toLowerCase());
  return fields
    .filter(
      ([name]) =>
        !NOT_CARRIED.test(name.toLowerCase().replace(/[_.]/g, '-')) && !listed.includes(name.toLowerCase()),
    )
    .map(([name, value]) => `${name}: ${value}`);
}

let runs = 0;
const carried = new Share();

const inputs = fc.tuple(
  // A pipelining client does not wait for 100 Continue.
  fc.tuple(requests(key), fc.option(requests(key).filter(({ text }) => !/^expect:/im.test(text)))),
  fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 }),
);

/**
 * Parses the responses. An unreadable request has no method, so its response has a body even if the
 * client meant a HEAD.
 */
function readable(bytes: Buffer, methods: readonly string[], ended: boolean) {
  const read = readAnswers(bytes, methods, ended);
  const last = read.answers.at(-1);
  if (read.fault === undefined || last?.status !== 400) return read;
  return readAnswers(bytes, [...methods.slice(0, read.answers.length - 1), 'GET'], ended);
}

async function compare([[first, second], cuts]: typeof inputs extends fc.Arbitrary<infer T>
  ? T
  : never): Promise<void> {
  const pair = second === null ? [first] : [first, second];
  const names = pair.map(() => `${(runs += 1)}`);
  const text = pair.map((each, i) => each.text.replace('{RUN}', names[i] ?? '')).join('');
  const places = [
    0,
    ...cuts.map((cut) => Math.floor(cut * text.length)).toSorted((a, b) => a - b),
    text.length,
  ];
  const pieces = places.slice(1).map((to, i) => Buffer.from(text.slice(places[i], to), 'latin1'));
  const methods = pair.map(({ method }) => method);
  const enough = (soFar: Buffer) => readAnswers(soFar, methods, false).answers.length >= pair.length;
  const [, talked] = await Promise.all([
    talk(ports.direct, pieces, { enough, quietMs: QUIET_MS }),
    talk(ports.latchkey, pieces, { enough, quietMs: QUIET_MS, settleMs: 2 }),
  ]);
  const { answers, fault } = readable(talked.bytes, methods, talked.ended);
  const statuses = answers.map(({ status }) => status);
  const plain = direct.take();
  const seen = upstream.take().filter((each) => names.includes(runOf(each)) || runOf(each) === 'none');
  if (fault !== undefined) throw new Error(`the client cannot read the answers: ${fault}`);
  for (const each of seen) {
    const name = runOf(each);
    const same = plain.find((other) => runOf(other) === name);
    if (same === undefined)
      throw new Error(`upstream got a request that was not sent: ${JSON.stringify(each)}`);
    if (seen.filter((other) => runOf(other) === name).length > 1)
      throw new Error('upstream got a request twice');
    equal([each.method, each.target, each.body], [same.method, same.target, same.body]);
    const fields = endToEnd(each);
    equal(fields, endToEnd(same));
    equal(
      each.fields.filter(([field]) => /^x.auth.user.id$/i.test(field)),
      [['X-Auth-User-Id', 'superuser']],
    );
  }
  names.forEach((name, i) => {
    const arrived = seen.some((each) => runOf(each) === name);
    const status = statuses[i];
    carried.note(arrived);
    // No responses follow one that closes the connection.
    if (arrived || status === undefined) return;
    if ((status < 400 || status > 499) && status !== 501)
      throw new Error(`nothing arrived, and the client got ${status}`);
  });
  // The request was complete without Latchkey, so there is nothing to wait for.
  if (statuses.length === 0 && !talked.ended && plain.length > 0)
    throw new Error('neither an answer nor an end');
}

t.test('a request arrives as it would without Latchkey in between, or not at all', async (t) => {
  const limit = process.env.FC_RUNS === undefined ? { interruptAfterTimeLimit: LIMIT_MS } : {};
  const details = await fc.check(fc.asyncProperty(inputs, compare), { ...options(2_000), ...limit });
  t.notOk(details.failed, told(details));
  t.ok(details.numRuns > 50, `${details.numRuns} runs, seed ${details.seed}`);
  t.ok(carried.exceeds(0.1), `${Math.round(carried.part * 100)} % arrived`);
});

function equal(found: unknown, wanted: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(wanted))
    throw new Error(
      `${JSON.stringify(found).slice(0, 2_000)} is not ${JSON.stringify(wanted).slice(0, 2_000)}`,
    );
}
