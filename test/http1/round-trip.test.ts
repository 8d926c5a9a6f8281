import * as fc from 'fast-check';
import t from 'tap';
import { METHODS } from '../../src/domain/methods.js';
import { RequestParser } from '../../src/http1/request-parser.js';
import { ResponseParser } from '../../src/http1/response-parser.js';
import {
  CHUNK_END,
  CHUNKED,
  chunkStart,
  lastChunk,
  requestHead,
  type RequestStart,
  responseHead,
  UNFRAMED,
  UnwritableMessage,
} from '../../src/http1/write.js';
import { property, Share } from '../helpers/property.js';
import { forEachRow } from '../helpers/table.js';
import { lenience, type Message, readWithCodec, readWithNode } from './reading.mjs';

const WIDE = {
  head_size: 1 << 20,
  head_fields: 1_000,
  target_size: 1 << 16,
  chunk_line_size: 128,
  extensions_size: 4_096,
  trailer_size: 1 << 16,
  informational: 50,
};

const textOf = (codes: readonly number[]) => String.fromCharCode(...codes);
const visible = fc.integer({ min: 0x21, max: 0x7e });
const isToken = (code: number) => /[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(code));
const name = fc.oneof(
  fc.constantFrom('Accept', 'X-Request-Id', 'x', '__proto__', 'constructor', 'Cookie', 'Set-Cookie'),
  fc.array(visible.filter(isToken), { minLength: 1, maxLength: 80 }).map(textOf),
);
const text = fc.oneof(visible, fc.integer({ min: 0x80, max: 0xff }), fc.constantFrom(0x20, 0x09));
const value = fc.array(text, { maxLength: 60 }).map((codes) => textOf(codes).replace(/^[ \t]+|[ \t]+$/g, ''));
const RESERVED =
  /^(?:host|content-length|transfer-encoding|connection|upgrade|te|trailer|keep-alive|proxy-.*|proxy|http2-settings)$/i;
const fields = fc
  .array(fc.tuple(name, value), { maxLength: 8 })
  .map((lines) => lines.filter(([each]) => !RESERVED.test(each)).flat());
const target = fc
  .array(
    visible.filter((code) => code !== 0x23),
    { maxLength: 40 },
  )
  .map((codes) => `/${textOf(codes)}`);
const bytes = fc.uint8Array({ maxLength: 300 }).map((each) => Buffer.from(each));
/** A body, with its chunk sizes; without them it has a length. */
const body = fc.tuple(
  bytes,
  fc.option(fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1, maxLength: 6 }), { nil: undefined }),
  fields,
);
type Body = [Buffer, number[] | undefined, string[]];

function framed([content, sizes, trailers]: Body): { length: number; written: Buffer[]; trailers: string[] } {
  if (sizes === undefined) return { length: content.length, written: [content], trailers: [] };
  const written: Buffer[] = [];
  for (let from = 0, i = 0; from < content.length; i++) {
    const data = content.subarray(from, from + (sizes[i % sizes.length] as number));
    written.push(Buffer.from(chunkStart(data.length)), data, Buffer.from(CHUNK_END));
    from += data.length;
  }
  written.push(Buffer.from(lastChunk(trailers), 'latin1'));
  return { length: CHUNKED, written, trailers };
}

function piecesOf(whole: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let from = 0, i = 0; from < whole.length; i++) {
    const size = sizes[i % sizes.length] ?? whole.length;
    pieces.push(whole.subarray(from, from + size));
    from += size;
  }
  return pieces;
}

const cuts = fc.array(fc.integer({ min: 1, max: 200 }), { maxLength: 5 });

function assertSame(actual: unknown, expected: unknown): void {
  if (JSON.stringify(actual) !== JSON.stringify(expected))
    throw new Error(`${JSON.stringify(actual)} is not ${JSON.stringify(expected)}`);
}

const START: RequestStart = { method: 'GET', target: '/', host: 'a', connection: 'keep-alive' };

const framingOf = (length: number) =>
  length === CHUNKED ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', String(length)];

property(
  'written requests are read back unchanged, also by Node',
  300,
  fc.tuple(
    fc.array(fc.tuple(fc.constantFrom(...METHODS), target, fields, body), {
      minLength: 1,
      maxLength: 3,
    }),
    cuts,
  ),
  ([requests, sizes]) => {
    const parts = requests.map(([method, path, lines, content]) => {
      const all = ['Host', 'a', 'Connection', 'keep-alive', ...lines];
      const { length, written, trailers } = framed(content);
      const head = Buffer.from(requestHead({ ...START, method, target: path }, lines, length), 'latin1');
      const message = { method, target: path, fields: [...all, ...framingOf(length)], body: content[0].toString('latin1'), trailers };
      return { bytes: Buffer.concat([head, ...written]), message };
    });
    const whole = Buffer.concat(parts.map((part) => part.bytes));
    const reading = readWithCodec(new RequestParser(WIDE), piecesOf(whole, sizes));
    assertSame(
      reading.messages.map((each: Message) => [each.method, each.target, each.fields, each.body, each.trailers]),
      parts.map(({ message }) => [message.method, message.target, message.fields, message.body, message.trailers]),
    );
    assertSame(lenience(reading, readWithNode(whole, undefined)), undefined);
  },
); // prettier-ignore

property(
  'written responses are read back unchanged, also by Node',
  300,
  fc.tuple(fc.integer({ min: 200, max: 599 }), value, fields, body, cuts),
  ([status, reason, lines, content, sizes]) => {
    const isBodiless = status === 204 || status === 304;
    const { length, written, trailers } = framed(content);
    const head = responseHead(status, reason, lines, isBodiless ? UNFRAMED : length);
    const whole = Buffer.concat([Buffer.from(head, 'latin1'), ...(isBodiless ? [] : written)]);
    const parser = new ResponseParser(WIDE);
    parser.expect('GET');
    const reading = readWithCodec(parser, piecesOf(whole, sizes));
    const [message] = reading.messages;
    const framing = isBodiless ? [] : framingOf(length);
    const expected = isBodiless ? ['', []] : [content[0].toString('latin1'), trailers];
    assertSame(
      [
        message?.status,
        message?.reason,
        message?.fields,
        message?.body,
        message?.trailers,
        message?.complete,
      ],
      [status, reason, [...lines, ...framing], ...expected, true],
    );
    assertSame(lenience(reading, readWithNode(whole, 'GET')), undefined);
  },
);

const anything = fc.string({ unit: 'binary', maxLength: 12 });
const refused = new Share();
property(
  'an arbitrary head is refused or read back exactly',
  2_000,
  fc.tuple(fc.oneof(name, anything), fc.oneof(value, anything), fc.oneof(target, anything), anything),
  ([key, content, path, reason]) => {
    const lines = [key, content];
    for (const write of [
      () => requestHead({ ...START, target: path }, lines, UNFRAMED),
      () => responseHead(200, reason, lines, 0),
    ]) {
      let head: string;
      try {
        head = write();
      } catch (error) {
        refused.note(true);
        if (!(error instanceof UnwritableMessage)) throw error;
        continue;
      }
      refused.note(false);
      const isRequest = head.startsWith('GET');
      const parser = isRequest ? new RequestParser(WIDE) : new ResponseParser(WIDE);
      if (parser instanceof ResponseParser) parser.expect('GET');
      const { messages, fault } = readWithCodec(parser, [Buffer.from(head, 'latin1')]);
      // The writer checks characters. The meaning of an option is checked elsewhere.
      if (fault === 'connection_invalid') continue;
      assertSame([messages.length, fault], [1, undefined]);
      const from = isRequest ? 4 : 0;
      assertSame(messages[0]?.fields.slice(from, from + 2), lines);
      if (isRequest) assertSame(messages[0]?.target, path);
      else assertSame(messages[0]?.reason, reason);
    }
  },
);

t.test('the property above covers both outcomes', async (t) => {
  t.ok(refused.exceeds(0.2) && refused.part < 1, String(refused.part));
});

t.test('no writer writes invalid heads', async (t) => {
  const line = (key: string, content: string) => () => requestHead(START, [key, content], UNFRAMED);
  forEachRow(
    [
      line('', 'a'),
      line('X:', 'a'),
      line('X ', 'a'),
      line('X\r\n', 'a'),
      line('X\u0120', 'a'),
      line('X', 'a\r\nY: b'),
      line('X', 'a\n'),
      line('X', '\0'),
      line('X', 'a\u010a'),
      line('X', ' a'),
      line('X', 'a\t'),
      line('Content-Length', '1'),
      line('transfer-encoding', 'chunked'),
      line('Host', 'b'),
      () => requestHead({ ...START, host: 'a\r\nX: b' }, [], UNFRAMED),
      () => requestHead({ ...START, host: ' a' }, [], UNFRAMED),
      line('connection', 'close'),
      () => requestHead(START, ['X'], UNFRAMED),
      () => requestHead({ ...START, method: 'GET', target: '' }, [], UNFRAMED),
      () => requestHead({ ...START, method: 'GET', target: '/ HTTP/1.1\r\n' }, [], UNFRAMED),
      () => requestHead({ ...START, method: 'GET', target: '/\u0120' }, [], UNFRAMED),
      () => requestHead({ ...START, method: 'get', target: '/' }, [], UNFRAMED),
      () => requestHead(START, [], 1.5),
      () => requestHead(START, [], -3),
      () => requestHead(START, [], NaN),
      () => requestHead(START, [], 1e15),
      () => responseHead(99, '', [], 0),
      () => responseHead(600, '', [], 0),
      () => responseHead(200.5, '', [], 0),
      () => responseHead(200, 'a\r\nb', [], 0),
      () => responseHead(204, '', [], 0),
      () => responseHead(100, '', [], CHUNKED),
      () => chunkStart(0),
      () => chunkStart(-1),
      () => chunkStart(0x8000_0000),
      () => lastChunk(['Content-Length', '1']),
      () => lastChunk(['Connection', 'close']),
      () => lastChunk(['X', 'a\nb']),
    ],
    (write) => t.throws(write, { code: 'UNWRITABLE_MESSAGE' }, String(write)),
  );
});

t.test('writes heads, chunks and trailers in the expected form', async (t) => {
  t.equal(requestHead({ ...START, target: '/a?b' }, ['X', ''], UNFRAMED), 'GET /a?b HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nX: \r\n\r\n');
  t.equal(requestHead({ ...START, method: 'POST', target: '/' }, [], 0), 'POST / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n');
  t.equal(responseHead(200, '', ['X', '\xe9'], CHUNKED), 'HTTP/1.1 200 \r\nX: \xe9\r\nTransfer-Encoding: chunked\r\n\r\n');
  t.equal(chunkStart(255) + CHUNK_END + lastChunk(['X', 'a']), 'ff\r\n\r\n0\r\nX: a\r\n\r\n');
}); // prettier-ignore
