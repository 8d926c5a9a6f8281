import * as fc from 'fast-check';
import type { Arbitrary } from 'fast-check';

/**
 * A request as the exact bytes of a client. In its `X-Run` field, `{RUN}` stands for the number of
 * the run.
 */
export interface RawRequest {
  readonly method: string;
  readonly text: string;
}

/** Bytes that become a request if the end of a body is misread. */
const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n';

const method = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE'),
  },
  { weight: 1, arbitrary: fc.constantFrom('TRACE', 'PROPFIND', 'QUERY', 'get', 'MKCOL') },
);
const target = fc
  .tuple(
    fc.array(
      fc.oneof(
        {
          weight: 8,
          arbitrary: fc.constantFrom(
            'a',
            'B',
            '1',
            '-',
            '.x',
            '~',
            '/',
            "'",
            '(',
            '*',
            '%20',
            '%C3%A9',
            '+',
            ':',
          ),
        },
        {
          weight: 1,
          arbitrary: fc.constantFrom(
            '//',
            '%2F',
            ';x',
            '..',
            '%2e',
            '%5c',
            '%',
            '\\',
            '"',
            '|',
            '{',
            '\xe9',
            '#',
          ),
        },
      ),
      { maxLength: 8 },
    ),
    fc.constantFrom('', '', '?', '?a=b&c', '?x=%zz', '?//../..', '?a#b', '?a b'),
  )
  .map(([parts, query]) => `/diff/${parts.join('')}${query}`);
const value = fc
  .array(
    fc.oneof(
      fc.integer({ min: 0x21, max: 0x7e }),
      fc.integer({ min: 0x80, max: 0xff }),
      fc.constantFrom(0x20, 0x09),
    ),
    {
      maxLength: 10,
    },
  )
  .map((codes) => String.fromCharCode(...codes).replace(/^[ \t]+|[ \t]+$/g, ''));
const field = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.tuple(
      fc.constantFrom('A', 'accept', 'X-B', "x!#$%&'*+.^_`|~9", 'Referer', 'X-Auth', 'A'),
      value,
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constant('Cookie'), fc.constantFrom('a=1', 'a=1; b=2', ' a = 1;;', 'service=1')),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom<[string, string][]>(
      ['X-Auth-User-Id', 'evil'],
      ['x_auth_user_id', 'evil'],
      ['X-Forwarded-For', '203.0.113.1'],
      ['Forwarded', 'for=evil'],
      ['X-Real-IP', '203.0.113.1'],
      ['Connection', 'X-B'],
      ['Connection', 'x-auth-user-id, A'],
      ['Keep-Alive', 'timeout=5'],
      ['TE', 'trailers'],
      ['Trailer', 'X-T'],
      ['Proxy-Connection', 'close'],
      ['Upgrade', 'h2c'],
      ['Content_Length', '3'],
      ['Transfer.Encoding', 'gzip'],
    ),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<[string, string][]>(
      ['Content-Length', '3'],
      ['Transfer-Encoding', 'chunked'],
      ['Transfer-Encoding', 'gzip, chunked'],
      ['Host', 'b'],
      ['Content-Length', '0, 3'],
      ['Expect', '100-continue'],
    ),
  },
);
const blank = fc.constantFrom('', ' ', ' ', ' ', '\t', '  ');
const body = fc.oneof(
  fc.constantFrom('', 'a', SMUGGLED, `0\r\n\r\n${SMUGGLED}`, '\r\n\r\n', 'x'.repeat(70_000)),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
);
const extension = fc.constantFrom('', '', '', ';a', ';a=b', ';a="b;c\\"d"', ';a;b=c');

/** A chunked body with random chunk sizes, extensions, leading zeros and trailers. */
const chunked = fc
  .tuple(
    body,
    fc.array(fc.tuple(fc.integer({ min: 1, max: 20_000 }), extension, fc.boolean()), { maxLength: 5 }),
    fc.boolean(),
  )
  .map(([text, cuts, trailer]) => {
    let out = '';
    let rest = text;
    for (const [size, more, zero] of [...cuts, [text.length, '', false] as const]) {
      if (rest === '') break;
      const part = rest.slice(0, size);
      rest = rest.slice(size);
      const hex = part.length.toString(16);
      out += `${zero ? `0${hex.toUpperCase()}` : hex}${more}\r\n${part}\r\n`;
    }
    return `${out}0\r\n${trailer ? 'X-T: evil\r\nX-Auth-User-Id: evil\r\n' : ''}\r\n`;
  });
const framed = fc.oneof(
  { weight: 2, arbitrary: fc.constant({ field: '', bytes: '' }) },
  { weight: 3, arbitrary: body.map((bytes) => ({ field: `Content-Length: ${bytes.length}\r\n`, bytes })) },
  { weight: 3, arbitrary: chunked.map((bytes) => ({ field: 'Transfer-Encoding: chunked\r\n', bytes })) },
);
const version = fc.oneof(
  { weight: 15, arbitrary: fc.constant('HTTP/1.1') },
  { weight: 1, arbitrary: fc.constantFrom('HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0') },
);

/** Mostly well-formed requests, each with the given `key`. */
export function requests(key: string): Arbitrary<RawRequest> {
  return fc
    .tuple(
      method,
      target,
      version,
      fc.array(fc.tuple(field, blank, blank), { maxLength: 5 }),
      framed,
      fc.boolean(),
    )
    .map(([verb, path, http, fields, { field: framing, bytes }, framingFirst]) => {
      const lines = fields
        .map(([[name, text], before, after]) => `${name}:${before}${text}${after}\r\n`)
        .join('');
      const fixed = `Host: a\r\nService-Key: ${key}\r\nX-Run: {RUN}\r\n`;
      const head = framingFirst ? framing + fixed + lines : fixed + lines + framing;
      return { method: verb, text: `${verb} ${path} ${http}\r\n${head}\r\n${bytes}` };
    });
}
