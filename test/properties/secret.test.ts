import * as fc from 'fast-check';
import { isAccessToken, newAccessToken, newSessionId, SESSION_ID_LENGTH } from '../../src/domain/secret.js';
import { property } from '../helpers/property.js';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'.split('');
const tokens = fc.constant(null).map(() => newAccessToken());
const places = fc.nat(39);

property('every token that is made has the form', 2_000, tokens, (token) => {
  if (!/^lk[0-9A-Za-z]{38}$/.test(token) || !isAccessToken(token)) throw new Error(token);
});

property(
  'one other character, anywhere, and it is refused',
  6_000,
  fc.tuple(
    tokens,
    places,
    fc.oneof(fc.constantFrom(...BASE62), fc.string({ minLength: 1, maxLength: 1, unit: 'binary' })),
  ),
  ([token, at, char]) => {
    if (token.charAt(at) !== char) refused(token.slice(0, at) + char + token.slice(at + 1));
  },
);

property(
  'one letter in the other case, and it is refused',
  4_000,
  fc.tuple(tokens, places),
  ([token, at]) => {
    const char = token.charAt(at);
    const swapped = char === char.toLowerCase() ? char.toUpperCase() : char.toLowerCase();
    if (swapped !== char) refused(token.slice(0, at) + swapped + token.slice(at + 1));
  },
);

property(
  'refuses a token with two neighbouring characters swapped',
  4_000,
  fc.tuple(tokens, fc.nat(38)),
  ([token, at]) => {
    const [a, b] = [token.charAt(at), token.charAt(at + 1)];
    if (a !== b) refused(token.slice(0, at) + b + a + token.slice(at + 2));
  },
);

property(
  'refuses a token that is cut off, extended, wrapped or all in one letter case',
  3_000,
  fc.tuple(tokens, places, fc.string({ minLength: 1, maxLength: 3 })),
  ([token, at, more]) => {
    for (const text of [
      token.slice(0, at),
      token.slice(at + 1),
      token + more,
      more + token,
      `"${token}"`,
      token + token,
      token.slice(0, at) + more + token.slice(at),
      token.toLowerCase(),
      token.toUpperCase(),
      ` ${token}`,
    ])
      refused(text);
  },
);

property(
  'refuses made-up text that looks like a token',
  6_000,
  fc.array(fc.constantFrom(...BASE62), { minLength: 38, maxLength: 40 }).map((chars) => chars.join('')),
  (text) => {
    refused(text);
    refused(`lk${text.slice(0, 38)}`);
  },
);

property('parts of two tokens never make a third', 2_000, fc.tuple(tokens, tokens, places), ([a, b, at]) => {
  const mixed = a.slice(0, at) + b.slice(at);
  if (mixed !== a && mixed !== b) refused(mixed);
});

property('never takes a session id for a token', 500, fc.constant(null), () => {
  const id = newSessionId();
  if (id.length !== SESSION_ID_LENGTH || !/^[\w-]+$/.test(id)) throw new Error(id);
  refused(id);
  refused(`lk${id.slice(0, 38)}`);
});

function refused(text: string): void {
  if (isAccessToken(text)) throw new Error(`taken for a token: ${JSON.stringify(text)}`);
}
