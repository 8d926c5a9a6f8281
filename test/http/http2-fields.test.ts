import { connect } from 'node:http2';
import { PassThrough } from 'node:stream';
import t from 'tap';
import { http2Fields } from '../../src/http/http2.js';
import { fieldsOfHttp2, ONE_LINE_LISTS, SINGLE } from '../../src/http/http2-fields.js';

/** Bytes that HTTP/1 writes besides a name and a value: the colon, a space and the line end. */
const LINE = 4;
const PSEUDO = [':method', 'GET', ':scheme', 'https', ':path', '/a'];
const NAMED = [...PSEUDO, ':authority', 'a'];

const ROWS: readonly [string, readonly string[], readonly string[] | string][] = [
  ['the authority becomes the host, first', [...NAMED, 'x', '1'], ['host', 'a', 'x', '1']],
  ['a host without an authority', [...PSEUDO, 'x', '1', 'host', 'a'], ['host', 'a', 'x', '1']],
  ['both, if they agree', [...NAMED, 'host', 'a'], ['host', 'a']],
  ['neither is left to the head reader', PSEUDO, []],
  ['both, if they differ', [...NAMED, 'host', 'b'], 'the Host header and :authority name different hosts'],
  ['an empty authority beside a host', [...PSEUDO, ':authority', '', 'host', 'b'], 'the Host header and :authority name different hosts'],
  ['two hosts', [...PSEUDO, 'host', 'a', 'host', 'a'], 'the header host was sent more than once'],
  ['the scheme http', [':scheme', 'http', 'host', 'a'], ['host', 'a']],
  ['another scheme', [':scheme', 'HTTPS', 'host', 'a'], ':scheme is neither https nor http'],
  ['other fields repeat in order', ['x', '1', 'y', '2', 'x', '3'], ['x', '1', 'y', '2', 'x', '3']],
  ['cookies become one, at the place of the first', ['x', '1', 'cookie', 'a=1', 'y', '2', 'cookie', 'b=2', 'cookie', 'c=3'], ['x', '1', 'cookie', 'a=1; b=2; c=3', 'y', '2']],
  ['cookies that come first', ['cookie', 'a=1', 'cookie', 'b=2'], ['cookie', 'a=1; b=2']],
  ['TE', ['te', 'trailers'], ['te', 'trailers']],
  ...['gzip', 'trailers, gzip', 'Trailers', ''].map((te): [string, string[], string] => [`TE: ${te}`, ['te', te], 'HTTP/2 allows only "trailers" in TE']),
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'http2-settings'].map((name): [string, string[], string] => [name, [name, ''], `the header ${name} is not allowed in HTTP/2`]),
]; // prettier-ignore

t.test('fields of HTTP/2 are read as those of HTTP/1.1', async (t) => {
  for (const [about, raw, wanted] of ROWS) {
    const fields = fieldsOfHttp2(raw, 1_000);
    const isRefused = typeof wanted === 'string';
    t.same(fields, isRefused ? { refusal: 'malformed', detail: wanted } : wanted, about);
  }
});

t.test('their size is that of the lines of HTTP/1.1, the host included once', async (t) => {
  const rows: readonly (readonly [string, readonly string[], number])[] = [
    ['an authority', [...NAMED, 'x', '12'], 'hosta'.length + 'x12'.length + 2 * LINE],
    ['a host', ['host', 'abc', 'x', '12'], 'hostabc'.length + 'x12'.length + 2 * LINE],
    ['both', [...NAMED, 'host', 'a'], 'hosta'.length + LINE],
    ['neither', [...PSEUDO, 'x', ''], 1 + LINE],
    ['a name without a value', ['x'.repeat(99), ''], 99 + LINE],
  ];
  for (const [about, raw, size] of rows) {
    t.ok(Array.isArray(fieldsOfHttp2(raw, size)), about);
    t.match(fieldsOfHttp2(raw, size - 1), { refusal: 'fields_too_large' }, `${about}, one byte too long`);
  }
});

const GRPC = ['content-type', 'application/grpc+proto'];
const NOT_BASE64 = ['!!!', 'A', 'QR', 'AQ===', 'AQ=', 'AQI=x', 'A QI', 'AQ_-', '\xe4', 'AQI,!', 'AQI;Aw'];
const BASE64 = ['', 'AQI', 'AQI=', 'AQ==', '/+8=', 'AQI,Aw', 'AQI=, Aw==', 'A'.repeat(4_096)];

t.test('binary metadata of a gRPC call must be Base64', async (t) => {
  const detail = 'the binary metadata x-bin is not Base64';
  for (const value of NOT_BASE64) {
    t.same(fieldsOfHttp2([...GRPC, 'x-bin', value], 9_000), { refusal: 'malformed', detail }, value);
    t.same(fieldsOfHttp2(['x-bin', value], 9_000), ['x-bin', value], `${value}, in no gRPC call`);
  }
  for (const value of BASE64) t.ok(Array.isArray(fieldsOfHttp2([...GRPC, 'x-bin', value], 9_000)), value);
});

t.test('every line is sent, except where node sends only one: lists are joined, and of others the first is sent', async (t) => {
  const lines = ['x-a', 'b', 'x-a', '', 'y', '1', 'x-a', 'a, c', 'n-bin', 'AQI,Aw', 'N-Bin', '/w==', 'etag', '1', 'etag', '2', 'if-match', '"a"', 'if-match', '"b"', 'location', '/one', 'location', '/one'];
  t.same(Object.entries(http2Fields(lines)), [['x-a', ['b', '', 'a, c']], ['y', '1'], ['n-bin', ['AQI', 'Aw', '/w==']], ['etag', '1'], ['if-match', '"a", "b"'], ['location', '/one']]);
  const session = connect('http://x', { createConnection: () => new PassThrough() });
  t.teardown(() => session.destroy());
  session.on('error', () => undefined);
  const others = ['accept', 'via', 'vary', 'cookie', 'set-cookie', 'link', 'grpc-status', 'forwarded', 'x-request-id', 'strict-transport-security', 'www-authenticate'];
  for (const name of [...ONE_LINE_LISTS, ...SINGLE, ...others]) {
    const fields = http2Fields([name, '1', name, '2']);
    t.doesNotThrow(() => session.request({ ':path': '/', ...fields }).on('error', () => undefined), name);
  }
}); // prettier-ignore
