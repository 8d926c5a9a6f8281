import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { LastSeen } from '../../src/accounts/last-seen.js';
import type { Subject } from '../../src/domain/credential.js';
import { logSchema } from '../../src/config/schema/observe.js';
import type { Verdict } from '../../src/gate/gate.js';
import type { RequestHead } from '../../src/http/head.js';
import { LineBuffer } from '../../src/observe/json-line.js';
import { logTo } from '../../src/observe/log.js';
import { createTracing } from '../../src/observe/tracing/spans.js';
import { AccessLog } from '../../src/pipeline/access-log.js';
import { RequestRecord } from '../../src/pipeline/record.js';
import { ShadowDifferences } from '../../src/pipeline/shadow.js';
import { serveHttp } from '../helpers/http.js';
import { lineDestination } from '../helpers/line-destination.js';
import { until } from '../helpers/until.js';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

const HEAD_SIZE = 16_384;
const KEPT = 1_000;

/** A substring of a request head, as the parser creates it. */
function fromHead(length: number, i: number): string {
  const head = Buffer.alloc(HEAD_SIZE, 97 + (i % 26)).toString('latin1');
  return head.slice(100, 100 + length);
}

/** Returns the heap bytes per retained object. */
async function sizeOf(keep: (count: number) => unknown): Promise<number> {
  await keep(10);
  gc();
  const before = process.memoryUsage().heapUsed;
  const kept = await keep(KEPT);
  gc();
  const size = (process.memoryUsage().heapUsed - before) / KEPT;
  if (kept === undefined) throw new Error('nothing is kept');
  return size;
}

t.test('what is kept of a request does not retain its head', async (t) => {
  const lists = (count: number) => {
    const list = new ShadowDifferences('1');
    for (let i = 0; i < count; i++) {
      const route = { path: `/${i}`, endpoint: null, position: null };
      const live = { refusal: undefined, route, action: null, subject: null, decision: null } as unknown as Verdict;
      list.note('would_refuse', { userAgent: fromHead(8_192, i) } as RequestHead, live, live);
    }
    return list;
  };
  t.ok((await sizeOf(lists)) < HEAD_SIZE / 4, 'a refusal by the shadow policy');

  const noted = (count: number, interval: number) => {
    const recordUses = async () => Promise.reject(new Error('the store is away'));
    const lastSeen = new LastSeen({ recordUses }, interval, 60_000, () => undefined);
    for (let i = 0; i < count; i++) {
      const subject = { credential: 'token', token: { id: `T${i}` } } as unknown as Subject;
      lastSeen.note(subject, fromHead(39, i), fromHead(100, i), 1);
    }
    return lastSeen;
  };
  t.ok((await sizeOf((count) => noted(count, 2_000))) < HEAD_SIZE / 4, 'a token use that is not written yet');
  const uses = async (count: number) => {
    const lastSeen = noted(count, 1_000);
    await t.rejects(lastSeen.flush());
    return lastSeen;
  };
  t.ok((await sizeOf(uses)) < HEAD_SIZE / 4, 'a token use that the store did not accept');

  // The collector takes the remaining spans at the end; without a server, that would stall.
  const collector = await serveHttp(t, (_req, res) => void res.end('{}'));
  const tracing = createTracing({ otlp: collector.url, service_name: 'l', sample_ratio: 1 }, () => undefined);
  t.teardown(() => tracing.close());
  const spans = (count: number) => {
    for (let i = 0; i < count; i++) {
      const parent = { traceId: fromHead(32, i), spanId: fromHead(16, i), sampled: true };
      const request = { method: 'GET', path: fromHead(50, i), scheme: 'http', host: 'a', client: fromHead(39, i), userAgent: fromHead(100, i), parent } as const;
      tracing.begin(performance.now(), request).end({ route: '/', status: 200, outcome: 'forwarded', values: {} }, 200);
    }
    return tracing;
  };
  t.ok((await sizeOf(spans)) < HEAD_SIZE / 2, 'a span waiting to be sent');
}); // prettier-ignore

t.test('what the access log keeps of a token is as long as its text', async (t) => {
  const lines = new LineBuffer();
  const destination = lineDestination(lines);
  const log = new AccessLog(
    logTo(destination, { level: 'info', levelFormat: 'number', configHash: 'x' }),
    logSchema.parse({ fields: [] }),
    'x',
  );
  const subjects = Array.from({ length: KEPT }, (_, i) => {
    const user = { id: `U${i}`, customerId: 'C1' };
    return { credential: 'token', user, token: { id: `T${i}` } } as unknown as Subject;
  });
  gc();
  const before = process.memoryUsage().arrayBuffers;
  for (const subject of subjects) {
    log.write(Object.assign(new RequestRecord('r'), { subject, outcome: 'forwarded', status: 200 }), 1);
    lines.take();
    // Other work uses small buffers too.
    Buffer.from('x'.repeat(3_000));
  }
  // V8 frees the memory of collected buffers in the background.
  const isFreed = () => {
    gc();
    return (process.memoryUsage().arrayBuffers - before) / subjects.length < 1_000;
  };
  await t.resolves(until(isFreed, 'less than 1,000 bytes per token'));
});
