import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { startFixture } from '../helpers/fixture.js';
import { readAnswers } from '../helpers/strict.mjs';
import { startStrictUpstream, talk } from '../helpers/wire.mjs';

interface Case {
  readonly about: string;
  readonly send: string;
  /** Method, target and body of each request that must arrive. If absent, none may. */
  readonly upstream?: readonly string[];
  /**
   * The body becomes malformed on the way: its start may arrive, but never as a complete request.
   */
  readonly broken?: boolean;
  readonly why?: string;
}
interface Fixtures {
  readonly project: string;
  readonly licence: string;
  readonly folder: string;
  readonly cases: readonly Case[];
}

/** Maximum wait for a response, in milliseconds. */
const QUIET_MS = 1_500;
/** Wait for smuggled requests to arrive, in milliseconds. */
const SETTLE_MS = 30;

const upstream = await startStrictUpstream();
t.teardown(() => upstream.close());
const { url, token, server } = await startFixture(t, {
  upstream: upstream.url,
  // The subject is how bodies are framed, not where they are allowed.
  default_route: { body_on_read: 'allow' },
});
const key = await token('superuser');
const port = Number(new URL(url).port);
const folder = join(import.meta.dirname, 'fixtures');

/** Returns the bytes of a case, and whether the client ends its side after them. */
function bytesOf(send: string, mark: string): { bytes: Buffer; end: boolean } {
  const text = send
    .replaceAll('{K}', `Host: a\r\n${mark}\r\nService-Key: {T}`)
    .replaceAll('{T}', key)
    .replace(/\{(\w)\*(\d+)\}/g, (_, char: string, times: string) => char.repeat(Number(times)))
    .replace(/\{fields\*(\d+)\}/g, (_, times: string) =>
      Array.from({ length: Number(times) }, (_each, i) => `A${i}: ${i}`).join('\r\n'),
    );
  return { bytes: Buffer.from(text.replace(/\{END\}$/, ''), 'latin1'), end: text.endsWith('{END}') };
}

for (const file of readdirSync(folder)) {
  const { project, licence, cases } = parse(readFileSync(join(folder, file), 'utf8')) as Fixtures;
  t.test(`${project}, ${licence}: ${cases.length} cases`, async (t) => {
    for (const [i, each] of cases.entries()) {
      const mark = `X-Case: ${file}-${i}`;
      upstream.reset();
      const { bytes, end } = bytesOf(each.send, mark);
      const wanted = each.upstream ?? [];
      const methods = bytes.toString('latin1').match(/^[A-Z]+(?= \/)/gm) ?? [];
      const talked = await talk(port, [bytes], {
        enough: (soFar) => readAnswers(soFar, methods, false).answers.length >= Math.max(1, wanted.length),
        settleMs: SETTLE_MS,
        quietMs: QUIET_MS,
        end,
      });
      const { answers, fault } = readAnswers(talked.bytes, methods, talked.ended);
      const arrived = upstream.seen.requests.map(
        ({ method, target, body }) => `${method} ${target} ${body.toString('latin1')}`,
      );
      const statuses = answers.map(({ status }) => status);
      // Two pipelined requests may arrive in either order.
      t.same(arrived.toSorted(), [...wanted].toSorted(), each.about);
      t.same(
        [upstream.seen.faults.length, fault],
        [0, undefined],
        `${each.about}: well-formed on both sides`,
      );
      t.equal(
        statuses.filter((status) => status < 300).length,
        wanted.length,
        `${each.about}: ${statuses.join()}`,
      );
      if (wanted.length === 0) {
        t.ok(talked.ended || statuses.length === 1, `${each.about}: answered or closed`);
        t.ok(
          statuses.every((status) => status >= 400 && status !== 500),
          `${each.about}: ${statuses.join()}`,
        );
      }
      if (each.broken !== true) {
        // Remains of the previous case may still arrive.
        const cut = upstream.seen.cut.filter((part) => wanted.length === 0 && part.includes(mark));
        t.same(cut, [], `${each.about}: no part of it arrives`);
      }
    }
  });
}

t.test('the server is unharmed', async (t) => {
  const levels = server
    .stdout()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => (JSON.parse(line) as { level: number }).level);
  t.same(
    levels.filter((level) => level >= 50),
    [],
  );
});

t.test('the response says what is malformed, and at which byte of the request', async (t) => {
  for (const [request, detail] of [
    ['GET[ / HTTP/1.1\r\nHost: a\r\n\r\n', 'method at byte 3 (RFC 9110 9.1, RFC 9112 3.1: a token of at most 32 bytes'],
    ['GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n', 'target at byte 6 ('],
    ['GET / HTTP/1.1\nHost: a\r\n\r\n', 'line_end at byte 14 (RFC 9112 2.2: lines end with CRLF'],
    ['GET / HTTP/1.1\r\nHost : a\r\n\r\n', 'space_before_colon at byte 20 ('],
    ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n', 'length_and_coding at byte '],
    ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na', 'length_invalid at byte '],
  ] as const) {
    const { bytes } = await talk(port, [Buffer.from(request, 'latin1')]);
    t.match(bytes.toString('latin1'), `"detail":"the request is not well-formed HTTP/1.1: ${detail}`, request);
  }
}); // prettier-ignore
