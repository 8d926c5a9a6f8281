import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { DEFAULT_LIMITS, END, type Fault, FAULTS, HEAD, NEED_DATA } from '../../src/http1/events.js';
import { RequestParser } from '../../src/http1/request-parser.js';
import { ResponseParser } from '../../src/http1/response-parser.js';
import { forEachRow } from '../helpers/table.js';
import { readWithCodec, summarise, type Reading } from './reading.mjs';

const LIMITS = {
  ...DEFAULT_LIMITS,
  head_size: 400,
  head_fields: 4,
  target_size: 20,
  chunk_line_size: 20,
  extensions_size: 24,
  trailer_size: 60,
  informational: 2,
};
const latin1 = (text: string) => Buffer.from(text, 'latin1');
const request = (pieces: readonly Buffer[]) => readWithCodec(new RequestParser(LIMITS), pieces);

function answer(pieces: readonly Buffer[], method = 'GET'): Reading {
  const parser = new ResponseParser(LIMITS);
  parser.expect(method);
  return readWithCodec(parser, pieces);
}

/**
 * Checks that the result is the same for every cut in two, for single bytes and, if the text is
 * short, for every cut in three.
 */
function sameInPieces(t: Test, text: string, read: (pieces: readonly Buffer[]) => Reading): Reading {
  const bytes = latin1(text);
  const whole = read([bytes]);
  const differs: number[][] = [];
  const check = (...cuts: number[]) => {
    const pieces = [0, ...cuts].map((from, i) => bytes.subarray(from, cuts[i] ?? bytes.length));
    if (JSON.stringify(read(pieces)) !== JSON.stringify(whole)) differs.push(cuts);
  };
  check(...Array.from(bytes.subarray(1), (_, i) => i + 1));
  for (let i = 0; i <= bytes.length; i++) {
    check(i);
    if (bytes.length <= 64) for (let j = i; j <= bytes.length; j++) check(i, j);
  }
  t.same(differs, [], `the same at every cut: ${JSON.stringify(text)}`);
  return whole;
}

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n';
const POST = 'POST / HTTP/1.1\r\nHost: a\r\n';
const CHUNKED = `${POST}Transfer-Encoding: chunked\r\n\r\n`;
const OK = 'HTTP/1.1 200 OK\r\n';
const OK_CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;

/** Refused requests by parser state: the bytes, and the tag with its offset. */
const REFUSED_REQUESTS: readonly (readonly [string, string])[] = [
  // the first line
  ['\n', 'method 0'],
  ['\r\r', 'line_end 1'],
  ['\r\n\r\n', 'method 2'],
  [' GET / HTTP/1.1\r\n', 'method 0'],
  ['GET\t/ HTTP/1.1\r\n', 'method 3'],
  ['GET[ / HTTP/1.1\r\n', 'method 3'],
  ['A'.repeat(40), 'method 32'],
  ['\x16\x03\x01', 'method 0'],
  ['GET  / HTTP/1.1\r\n', 'target 4'],
  ['GET /\r\n', 'target 5'],
  ['GET /\tHTTP/1.1\r\n', 'target 5'],
  ['GET /\x7f HTTP/1.1\r\n', 'target 5'],
  ['GET /\xe9 HTTP/1.1\r\n', 'target 5'],
  ['GET /\0 HTTP/1.1\r\n', 'target 5'],
  [`GET /${'a'.repeat(20)} HTTP/1.1\r\n`, 'target_too_long 24'],
  ['GET / HTTP/1.2\r\n', 'version 13'],
  ['GET / HTTP/2.0\r\n', 'version 11'],
  ['GET / http/1.1\r\n', 'version 6'],
  ['GET /  HTTP/1.1\r\n', 'version 6'],
  ['GET / HTTP/1.1 \r\n', 'version 14'],
  ['GET / HTTP/1.1\n', 'line_end 14'],
  ['GET / HTTP/1.1\rX', 'version 15'],
  ['GET / HTTP/1.1\r\r', 'line_end 15'],
  // field lines
  [`GET / HTTP/1.1\r\n Host: a\r\n\r\n`, 'folded_line 16'],
  [`${GET}\tX: a\r\n\r\n`, 'folded_line 25'],
  [`${GET}X: a\r\n b\r\n\r\n`, 'folded_line 31'],
  [`${GET}: a\r\n\r\n`, 'field_name 25'],
  [`${GET}X\r\n\r\n`, 'field_name 26'],
  [`${GET}X\xe9: a\r\n\r\n`, 'field_name 26'],
  [`${GET}X(: a\r\n\r\n`, 'field_name 26'],
  [`${GET}X\0: a\r\n\r\n`, 'field_name 26'],
  [`${GET}X : a\r\n\r\n`, 'space_before_colon 26'],
  [`${GET}X\t: a\r\n\r\n`, 'space_before_colon 26'],
  [`${GET}X: a\n\r\n`, 'line_end 29'],
  [`${GET}X: a\rb\r\n\r\n`, 'line_end 30'],
  [`${GET}X: a\0\r\n\r\n`, 'field_value 29'],
  [`${GET}X: a\x7f\r\n\r\n`, 'field_value 29'],
  [`${GET}X: a\x0b\r\n\r\n`, 'field_value 29'],
  [`${GET}\n`, 'line_end 25'],
  [`${GET}\rX`, 'line_end 26'],
  [`${GET}${'X: a\r\n'.repeat(4)}\r\n`, 'too_many_fields 43'],
  [`${GET}X: ${'a'.repeat(400)}\r\n\r\n`, 'head_too_large 418'],
  [`${GET}X: ${'a'.repeat(390)}`, 'head_too_large 418'],
  [`${GET}X: ${'a'.repeat(389)}`, 'cut_off 417'],
  // framing
  [`${POST}Content-Length:\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: -1\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: +1\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: 1 1\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: 0x1\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: 1_0\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: 5, 5\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: 1\t\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: 1${'0'.repeat(15)}\r\n\r\n`, 'length_invalid 26'],
  [`${POST}Content-Length: 1\r\ncontent-length: 1\r\n\r\n`, 'length_repeated 45'],
  [`${POST}Transfer-Encoding: gzip, chunked\r\n\r\n`, 'coding_unknown 26'],
  [`${POST}Transfer-Encoding: ,chunked\r\n\r\n`, 'coding_unknown 26'],
  [`${POST}Transfer-Encoding: chunked\t\r\n\r\n`, 'coding_unknown 26'],
  [`${POST}Transfer-Encoding: \xa0chunked\r\n\r\n`, 'coding_unknown 26'],
  [`${POST}Transfer-Encoding:\r\n\r\n`, 'coding_unknown 26'],
  [`${POST}Transfer-Encoding: identity\r\n\r\n`, 'coding_unknown 26'],
  [`${POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`, 'coding_repeated 54'],
  [`${POST}Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n`, 'length_and_coding 54'],
  [`${POST}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n`, 'length_and_coding 45'],
  ['CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n', 'framing_forbidden 52'],
  [`${GET}Connection: a b\r\n\r\n`, 'connection_invalid 25'],
  [`${GET}Connection: "close"\r\n\r\n`, 'connection_invalid 25'],
  // between messages, and the end of the connection
  ['GET', 'cut_off 3'],
  [GET, 'cut_off 25'],
  ['\r\nG', 'cut_off 3'],
];

t.test('refuses malformed requests before their head is complete', async (t) => {
  forEachRow(REFUSED_REQUESTS, ([text, expected]) => {
    t.same(summarise(sameInPieces(t, text, request)), [expected], JSON.stringify(text));
  });
});

t.test('refuses malformed request bodies', async (t) => {
  const rows: readonly (readonly [string, string, string])[] = [
    [`${POST}Content-Length: 2\r\n\r\na`, 'POST / cut 1', 'cut_off 48'],
    [CHUNKED, 'POST / cut 0', 'cut_off 56'],
    [`${CHUNKED}\r\n`, 'POST / cut 0', 'chunk_size 56'],
    [`${CHUNKED};a\r\n`, 'POST / cut 0', 'chunk_size 56'],
    [`${CHUNKED} 1\r\n`, 'POST / cut 0', 'chunk_size 56'],
    [`${CHUNKED}1 \r\n`, 'POST / cut 0', 'chunk_size 57'],
    [`${CHUNKED}0x1\r\n`, 'POST / cut 0', 'chunk_size 57'],
    [`${CHUNKED}-1\r\n`, 'POST / cut 0', 'chunk_size 56'],
    [`${CHUNKED}1g\r\n`, 'POST / cut 0', 'chunk_size 57'],
    [`${CHUNKED}000000001\r\n`, 'POST / cut 0', 'chunk_size 64'],
    [`${CHUNKED}80000000\r\n`, 'POST / cut 0', 'chunk_size 63'],
    [`${CHUNKED}1\na`, 'POST / cut 0', 'line_end 57'],
    [`${CHUNKED}1\ra`, 'POST / cut 0', 'line_end 58'],
    [`${CHUNKED}1;\r\n`, 'POST / cut 0', 'chunk_extension 58'],
    [`${CHUNKED}1; a\r\n`, 'POST / cut 0', 'chunk_extension 58'],
    [`${CHUNKED}1;a=\r\n`, 'POST / cut 0', 'chunk_extension 60'],
    [`${CHUNKED}1;a =b\r\n`, 'POST / cut 0', 'chunk_extension 59'],
    [`${CHUNKED}1;a=b c\r\n`, 'POST / cut 0', 'chunk_extension 61'],
    [`${CHUNKED}1;a="b\r\n`, 'POST / cut 0', 'chunk_extension 62'],
    [`${CHUNKED}1;a="b"c\r\n`, 'POST / cut 0', 'chunk_extension 63'],
    [`${CHUNKED}1;a="\xe9"\r\n`, 'POST / cut 0', 'chunk_extension 61'],
    [`${CHUNKED}1;a="\\\xe9"\r\n`, 'POST / cut 0', 'chunk_extension 62'],
    [`${CHUNKED}1;a\n`, 'POST / cut 0', 'line_end 59'],
    [`${CHUNKED}1;a="\n`, 'POST / cut 0', 'line_end 61'],
    [`${CHUNKED}1;${'a'.repeat(19)}\r\n`, 'POST / cut 0', 'chunk_line_too_long 76'],
    [
      `${CHUNKED}1;${'a'.repeat(12)}\r\nx\r\n1;${'a'.repeat(11)}\r\n`,
      'POST / cut 1',
      'extensions_too_large 87',
    ],
    [`${CHUNKED}1\r\nab`, 'POST / cut 1', 'chunk_end 60'],
    [`${CHUNKED}1\r\na\n`, 'POST / cut 1', 'chunk_end 60'],
    [`${CHUNKED}1\r\na\rb`, 'POST / cut 1', 'chunk_end 61'],
    [`${CHUNKED}0\r\n`, 'POST / cut 0', 'cut_off 59'],
    [`${CHUNKED}0\r\nX`, 'POST / cut 0', 'cut_off 60'],
    [`${CHUNKED}0\r\n\n`, 'POST / cut 0', 'line_end 59'],
    [`${CHUNKED}0\r\nX : a\r\n\r\n`, 'POST / cut 0', 'space_before_colon 60'],
    [`${CHUNKED}0\r\nA: b\r\nHost: a\r\n\r\n`, 'POST / cut 0', 'trailer_forbidden 65'],
    [`${CHUNKED}0\r\nTE: a\r\n\r\n`, 'POST / cut 0', 'trailer_forbidden 59'],
    [`${CHUNKED}0\r\nTransfer-Encoding: chunked\r\n\r\n`, 'POST / cut 0', 'trailer_forbidden 59'],
    [`${CHUNKED}0\r\nX: ${'a'.repeat(80)}\r\n\r\n`, 'POST / cut 0', 'trailers_too_large 119'],
    [`${CHUNKED}0\r\n${'X: a\r\n'.repeat(5)}\r\n`, 'POST / cut 0', 'too_many_fields 83'],
  ];
  forEachRow(rows, ([text, ...expected]) => {
    t.same(summarise(sameInPieces(t, text, request)), expected, JSON.stringify(text));
  });
});

/** Valid requests, and how each message is read. */
const VALID_REQUESTS: readonly (readonly [string, ...string[]])[] = [
  [''],
  ['\r\n'],
  [`${GET}\r\n\r\n`, 'GET / 0'],
  [`${GET}\r\n`, 'GET / 0'],
  [`\r\n${GET}\r\n`, 'GET / 0'],
  [`${GET}\r\n\r\n${GET}\r\n`, 'GET / 0', 'GET / 0'],
  ['GET / HTTP/1.0\r\n\r\n', 'GET / 0'],
  ['OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n', 'OPTIONS * 0'],
  ['GET / HTTP/1.1\r\n\r\n', 'GET / 0'],
  [`${GET}Host: a@b\r\n\r\n`, 'GET / 0'],
  ['GET a#b HTTP/1.1\r\nHost: a\r\n\r\n', 'GET a#b 0'],
  ['GET https://a:1/b HTTP/1.1\r\nHost: a:1\r\n\r\n', 'GET https://a:1/b 0'],
  ['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\ntunnel', 'CONNECT a:1 0'],
  ['GET /\\"<>^`{|}%zz HTTP/1.1\r\nHost: a\r\n\r\n', 'GET /\\"<>^`{|}%zz 0'],
  [`${POST}Content-Length: 003\r\n\r\nabc${GET}\r\n`, 'POST / 3', 'GET / 0'],
  [`${POST}Content-Length:  3 \r\n\r\nabc`, 'POST / 3'],
  [`${GET}Content-Length: 0\r\n\r\n${GET}\r\n`, 'GET / 0', 'GET / 0'],
  [`${POST}tRANSFER-eNCODING:CHUNKED\r\n\r\n3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n${GET}\r\n`, 'POST / 13', 'GET / 0'],
  [`${CHUNKED}1;a;b=c\r\nx\r\n0;d="\\"\t "\r\n\r\n`, 'POST / 1'],
  [`${CHUNKED}1;${'a'.repeat(18)}\r\nx\r\n0\r\nX-A: b\r\n\r\n${GET}\r\n`, 'POST / 1', 'GET / 0'],
  ...[1, 2].map((times) => {
    const text = `${CHUNKED}1;${'a'.repeat(14)}\r\nx\r\n0\r\n\r\n`;
    return [text.repeat(times), ...['POST / 1', 'POST / 1'].slice(0, times)] as const;
  }),
  [`${GET}Connection: close\r\n\r\n${GET}\r\n`, 'GET / 0'],
  [`${GET}Connection: , keep-alive ,CLOSE,\r\n\r\n${GET}\r\n`, 'GET / 0'],
  ...['close', 'CLOSE', ',close', 'x, close', 'close , x', ''].map(
    (value) => [`${GET}Proxy-Connection: ${value}\r\n\r\n${GET}\r\n`, 'GET / 0'] as const,
  ),
  [`${GET}Proxy-Connection: Keep-Alive\r\n\r\n${GET}\r\n`, 'GET / 0', 'GET / 0'],
  [`GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n${GET}\r\n`, 'GET / 0', 'GET / 0'],
  [`GET / HTTP/1.0\r\nConnection: x, Keep-Alive \r\n\r\n${GET}\r\n`, 'GET / 0', 'GET / 0'],
  ...['keep-alive\t', 'keep-alive\t,x', 'x,\tkeep-alive', 'keep-alive, x\t'].map(
    (value) => [`GET / HTTP/1.0\r\nConnection: ${value}\r\n\r\n${GET}\r\n`, 'GET / 0'] as const,
  ),
  [`GET / HTTP/1.0\r\n\r\n${GET}\r\n`, 'GET / 0'],
]; // prettier-ignore

t.test('reads valid requests', async (t) => {
  forEachRow(VALID_REQUESTS, ([text, ...expected]) => {
    t.same(summarise(sameInPieces(t, text, request)), expected, JSON.stringify(text));
  });
});

t.test('the target has a limit of its own, beside that of the fields', async (t) => {
  const limits = { ...LIMITS, head_size: 30, target_size: 60 };
  const read = (size: number, fields: string) =>
    summarise(
      sameInPieces(t, `\r\nCHECKOUT /${'a'.repeat(size - 1)} HTTP/1.1\r\n${fields}\r\n`, (pieces) =>
        readWithCodec(new RequestParser(limits), pieces),
      ),
    );
  const exact = `Host: a\r\nX: ${'a'.repeat(16)}\r\n`;
  t.equal(exact.length, limits.head_size);
  t.same(read(60, exact), [`CHECKOUT /${'a'.repeat(59)} 0`]);
  t.same(read(60, `X${exact}`), ['head_too_large 114']);
  t.same(read(61, exact), ['target_too_long 71']);
});

t.test('keeps names and values as sent, without whitespace around values', async (t) => {
  const lines = 'Host: a\r\nx-EMPTY:\r\nX: \t b \xe9\tc \t\r\n__proto__:d\r\n';
  const { messages } = sameInPieces(t, `GET / HTTP/1.1\r\n${lines}\r\n`, request);
  t.same(messages[0]?.fields, ['Host', 'a', 'x-EMPTY', '', 'X', 'b \xe9\tc', '__proto__', 'd']);
});

t.test('an upgrade takes both header fields, and HTTP/1.1', async (t) => {
  const of = (text: string) => request([latin1(text)]).messages[0]?.upgrade;
  t.equal(of(`${GET}Connection: Upgrade\r\nUpgrade: x\r\n\r\n`), true);
  t.equal(of(`${GET}Connection: Upgrade\r\n\r\n`), false);
  t.equal(of(`${GET}Upgrade: x\r\n\r\n`), false);
  t.equal(of('GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'), false);
});

t.test('refuses malformed responses', async (t) => {
  const rows: readonly (readonly [string, ...string[]])[] = [
    ['\r\n', 'version 0'],
    ['HTTP/1.2 200 OK\r\n', 'version 7'],
    ['HTTP/1.1\t200 OK\r\n', 'version 8'],
    ['http/1.1 200 OK\r\n', 'version 0'],
    ['HTTP/1.1  200 OK\r\n', 'status 9'],
    ['HTTP/1.1 20 OK\r\n', 'status 11'],
    ['HTTP/1.1 2000 OK\r\n', 'status 12'],
    ['HTTP/1.1 099 OK\r\n', 'status 9'],
    ['HTTP/1.1 600 OK\r\n', 'status 9'],
    ['HTTP/1.1 200\n', 'line_end 12'],
    ['HTTP/1.1 200 OK\n', 'line_end 15'],
    ['HTTP/1.1 200 O\0K\r\n', 'reason 14'],
    ['HTTP/1.1 200 OK\rX', 'line_end 16'],
    ['HTTP/1.0 100 Go\r\n\r\n', 'status 19'],
    ['HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', 'coding_version 47'],
    ['HTTP/1.1 100 Go\r\nContent-Length: 0\r\n\r\n', 'framing_forbidden 38'],
    ['HTTP/1.1 103 Go\r\nTransfer-Encoding: chunked\r\n\r\n', 'framing_forbidden 47'],
    ['HTTP/1.1 100 Go\r\nConnection: close\r\n\r\n', 'framing_forbidden 38'],
    ['HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n', 'unexpected_switch 31'],
    ['HTTP/1.1 103 Go\r\n\r\n'.repeat(3), '103 0', '103 0', 'too_many_informational 19'],
    [`${OK}Content-Length: 2\r\nContent-Length: 2\r\n\r\nok`, 'length_repeated 36'],
    [`${OK}Transfer-Encoding: gzip, chunked\r\n\r\n`, 'coding_unknown 17'],
    [`${OK}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n`, 'length_and_coding 36'],
    [`${OK}Content-Length: 3\r\n\r\nok`, '200 cut 2', 'cut_off 40'],
    [`${OK_CHUNKED}2\r\nok\r\n`, '200 cut 2', 'cut_off 54'],
    [`${OK_CHUNKED}0\r\nContent-Length: 0\r\n\r\n`, '200 cut 0', 'trailer_forbidden 50'],
    [`${OK}Content-Length: 2\r\n\r\nokX`, '200 2', 'surplus 0'],
    [`${OK}Content-Length: 2\r\n\r\nok\r\n`, '200 2', 'surplus 0'],
    ['HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\n', '204 0', 'surplus 0'],
    ['', 'cut_off 0'],
    ['HTTP/1.1 100 Go\r\n\r\n', '100 0', 'cut_off 0'],
  ];
  forEachRow(rows, ([text, ...expected]) => {
    t.same(summarise(sameInPieces(t, text, (pieces) => answer(pieces))), expected, JSON.stringify(text));
  });
});

t.test('knows how a response ends, and whether the connection stays open', async (t) => {
  const rows: readonly (readonly [method: string, text: string, reads: string[], goesOn: boolean])[] = [
    ['GET', `${OK}Content-Length: 2\r\n\r\nok`, ['200 2'], true],
    ['GET', `${OK}Content-Length: 0\r\n\r\n`, ['200 0'], true],
    ['GET', `${OK}Host: a\r\nHost: b\r\nContent-Length: 2\r\n\r\nok`, ['200 2'], true],
    ['GET', 'HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok', ['200 2'], true],
    ['GET', `${OK_CHUNKED}2\r\nok\r\n0\r\nX: y\r\n\r\n`, ['200 2'], true],
    ['GET', `${OK_CHUNKED}2\r\nok\r\n0\r\nConnection: close\r\n\r\n`, ['200 2'], false],
    ['GET', `${OK_CHUNKED}2\r\nok\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n`, ['200 2'], false],
    ['GET', `${OK}\r\nto the end`, ['200 10'], false],
    ['GET', `${OK}Connection: close\r\nContent-Length: 2\r\n\r\nok`, ['200 2'], false],
    ['GET', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', ['200 2'], false],
    ['GET', 'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok', ['200 2'], true],
    ['GET', `HTTP/1.1 103 Go\r\nX: y\r\n\r\n${OK}Content-Length: 2\r\n\r\nok`, ['103 0', '200 2'], true],
    ['GET', 'HTTP/1.1 204 No\r\n\r\n', ['204 0'], true],
    ['GET', 'HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n', ['204 0'], true],
    ['GET', 'HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nok', ['204 0'], false],
    ['GET', 'HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n', ['204 0'], false],
    ['GET', 'HTTP/1.1 304 Not\r\n\r\n', ['304 0'], true],
    ['GET', 'HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n', ['304 0'], false],
    ['GET', 'HTTP/1.1 205 Reset\r\nContent-Length: 2\r\n\r\nok', ['205 2'], true],
    ['HEAD', `${OK}Content-Length: 5\r\n\r\n`, ['200 0'], false],
    ['HEAD', OK_CHUNKED, ['200 0'], false],
    ['HEAD', `${OK}\r\n`, ['200 0'], false],
    ['HEAD', `${OK}Content-Length: 0\r\n\r\n`, ['200 0'], true],
    ['HEAD', 'HTTP/1.1 304 Not\r\n\r\n', ['304 0'], true],
  ]; // prettier-ignore
  forEachRow(rows, ([method, text, reads, goesOn]) => {
    const reading = sameInPieces(t, text, (pieces) => answer(pieces, method));
    t.same(summarise(reading), reads, JSON.stringify(text));
    t.equal(reading.messages.at(-1)?.persistent, goesOn, `goes on: ${JSON.stringify(text)}`);
  });
});

t.test('hands over the bytes after a protocol switch unread', async (t) => {
  const server = new RequestParser(LIMITS);
  server.feed(latin1(`${GET}Connection: upgrade\r\nUpgrade: x\r\n\r\nframes`));
  t.same([server.next(), server.next()], [1, 4]);
  t.equal(server.takeRest().toString(), 'frames');
  t.equal(server.next(), 5);
});

t.test('reads upstream bytes as a response only if a request is open', async (t) => {
  const parser = new ResponseParser(LIMITS);
  const text = latin1(`${OK}Content-Length: 2\r\n\r\nok`);
  for (let i = 0; i < 3; i++) {
    parser.expect('GET');
    t.throws(() => parser.expect('GET'), 'one at a time');
    parser.feed(text);
    t.same([parser.next(), parser.next(), parser.next(), parser.next()], [1, 3, 4, 0]);
  }
  parser.feed(text);
  parser.expect('GET');
  t.same([parser.next(), parser.fault], [6, 'surplus'], 'bytes before the request are not its response');
  t.throws(() => parser.expect('GET'));
});

t.test('reads repeated and changed fields as a fresh parser does', async (t) => {
  const heads = [
    `${GET}X: 1\r\n\r\n`,
    `${GET}X: 1\r\n\r\n`,
    `${CHUNKED}1\r\na\r\n0\r\nY: 1\r\n\r\n`,
    `${CHUNKED}1\r\na\r\n0\r\nY: 2\r\n\r\n`,
    `GET /b HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n`,
    `${GET}X: 2\r\n\r\n`,
    `${GET}Y: 1\r\n\r\n`,
    `${CHUNKED}1\r\na\r\n0\r\nY: 1\r\n\r\n`,
    `${CHUNKED}2\r\nab\r\n0\r\n\r\n`,
    'GET /b HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n',
    'GET /b HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n',
    `${GET}\r\n`,
  ];
  const all = sameInPieces(t, heads.join(''), request);
  t.same(
    all.messages,
    heads.flatMap((head) => request([latin1(head)]).messages),
  );
  t.equal(all.fault, undefined);
});

t.test('a head that is too long to remember does not pass for the one before', async (t) => {
  const small = `${GET}X: 1\r\n\r\n`;
  const large = `${GET}X: ${'2'.repeat(5_000)}\r\n\r\n`;
  const heads = [small, small, large, small, large, large];
  const { messages } = readWithCodec(new RequestParser(DEFAULT_LIMITS), [latin1(heads.join(''))]);
  t.same(messages.map(({ fields }) => fields[3]?.length), heads.map((head) => (head === small ? 1 : 5_000)));
}); // prettier-ignore

t.test('each request may have as many informational responses', async (t) => {
  const parser = new ResponseParser(LIMITS);
  const text = `${'HTTP/1.1 103 Go\r\n\r\n'.repeat(LIMITS.informational)}${OK}Content-Length: 0\r\n\r\n`;
  for (let i = 0; i < 3; i++) {
    parser.expect('GET');
    parser.feed(latin1(text));
    t.same([parser.next(), parser.next(), parser.next(), parser.next()], [2, 2, 1, 4]);
  }
});

t.test('a parser that forgot the last head reads the next one alike', async (t) => {
  const head = latin1(`GET /a?secret HTTP/1.1\r\nHost: a\r\nService-Key: secret\r\n\r\n`);
  const parser = new RequestParser(DEFAULT_LIMITS);
  const read = () => {
    parser.feed(head);
    t.equal(parser.next(), HEAD);
    const found = [parser.target, ...parser.fields];
    t.equal(parser.next(), END);
    return found;
  };
  const first = read();
  t.same(read(), first);
  parser.forget();
  t.same([parser.target, parser.fields], ['', []]);
  t.same(read(), first);
  t.same(read(), first);
});

t.test('a parser that forgot the last head has no bytes of it, however it arrived', async (t) => {
  const head = `${GET}Service-Key: secret\r\n\r\n`;
  for (const next of ['', '\r', '\r\n', `${GET}\r\n`])
    for (let at = 0; at < head.length; at++) {
      const about = `${JSON.stringify(next)}: cut at ${at}`;
      const parser = new RequestParser(DEFAULT_LIMITS);
      let event: number = NEED_DATA;
      for (const piece of [head.slice(0, at), head.slice(at) + next]) {
        parser.feed(latin1(piece));
        event = parser.next();
        parser.own();
      }
      t.same([event, parser.next()], [HEAD, END], about);
      // An empty line is read at once; a request waits for the response to the one before.
      if (next.length <= 2) t.equal(parser.next(), NEED_DATA, about);
      parser.forget();
      // Beyond `end`, a new buffer has whatever was in its memory before.
      const { bytes, end } = parser as unknown as { bytes: Buffer; end: number };
      t.notOk(bytes.subarray(0, end).includes('secret'), about);
      t.equal(parser.next(), next.length > 2 ? HEAD : NEED_DATA, about);
    }
}); // prettier-ignore

t.test('every fault tag is tested and documented', async (t) => {
  const [source, page] = ['./parsers.test.ts', '../../docs/design/engine.md'].map((path) =>
    readFileSync(new URL(path, import.meta.url), 'utf8'),
  ) as [string, string];
  for (const tag of Object.keys(FAULTS) as Fault[]) {
    t.ok(source.includes(`'${tag} `) || source.includes(`'${tag}'`), tag);
    t.ok(page.includes(`| \`${tag}\``), tag);
  }
});
