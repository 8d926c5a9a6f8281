import t from 'tap';
import { isName } from '../../src/domain/limits.js';
import { printable } from '../../src/util/text.js';
import { confirmation, credentials, readBy, tokenParameters } from '../../src/accounts/parameters.js';
import { type TokenRequest, Tokens } from '../../src/accounts/tokens.js';
import type { Store } from '../../src/store/core/store.js';

const LONG = 'ü'.repeat(513);
const UNPROCESSABLE = { status: 422, code: 'Unprocessable Entity' } as const;

t.test('says which value is missing, too long or invalid', async (t) => {
  const required = 'The username and password are required, as username (at POST /login: user) and password';
  const rows: [object, string][] = [
    [{}, required],
    [{ login: 'a' }, required],
    [{ login: LONG, password: '' }, required],
    [{ login: LONG, password: LONG }, 'The password is longer than 1024 bytes'],
    [{ login: LONG, password: 'a' }, 'The username is too long'],
    [{ login: 'a', password: LONG.slice(1) }, 'fits'],
  ];
  const refusal = { status: 400, code: 'invalid_request' } as const;
  const told = (schema: typeof credentials, value: object) => {
    const read = readBy(schema, value, refusal);
    return 'refusal' in read && 'detail' in read ? read.detail : 'fits';
  };
  for (const [value, detail] of rows) t.equal(told(credentials, value), detail, JSON.stringify(value));
  t.equal(told(confirmation, { login: 'a' }), 'The password is required');

  const many = Array.from({ length: 1_001 }, (_, i) => `S${i}`);
  const services: [string[], string][] = [
    [['S1', ''], 'A service restriction must name a service'],
    [many, 'More than 100 services'],
    [['S1', 'a b', 'c d'], 'The service "a b" is unknown'],
  ];
  for (const [ids, detail] of services)
    t.match(readBy(tokenParameters.services, ids, UNPROCESSABLE), { refusal: 'grant', detail });
});

t.test('checks scope, expiry, services and name of a token in this order', async (t) => {
  const store = { directory: { listServices: async () => [{ id: 'S1', customerId: 'C1', name: 'www' }] }, tokens: { customerHasAtLeast: () => false } } as unknown as Store;
  const settings = { max_per_user: null, max_stored_per_user: 1_000, max_stored_per_customer: 100_000, max_lifetime: null };
  const tokens = new Tokens(store, { pending: () => undefined }, settings, ['global', 'read']);
  const user = { id: 'U1', customerId: 'C1' } as Parameters<Tokens['create']>[0];
  const wrong = { scope: 'none', expiresAt: 'tomorrow', services: ['S2'], name: '\n' };
  const rows: [Partial<TokenRequest>, string][] = [
    [{ scope: ' ' }, 'The scope is empty'],
    [{}, 'The scope "none" is not valid; valid scopes: global, read'],
    [{ scope: 'global,read' }, 'The scope "global,read" is not valid; valid scopes: global, read; separate scopes with spaces'],
    [{ scope: undefined }, 'expires_at must be an ISO 8601 date-time with an offset, like 2030-01-31T12:00:00Z'],
    [{ scope: 'global', expiresAt: '2000-01-01T00:00:00Z' }, 'expires_at has passed'],
    [{ scope: 'global', expiresAt: undefined }, 'The service "S2" is unknown'],
    [{ scope: 'global', expiresAt: undefined, services: ['S1'], name: '' }, 'The name must be 1 to 255 characters without control and invisible characters'],
    [{ scope: 'global', expiresAt: undefined, services: ['S1'] }, 'The name must be 1 to 255 characters without control and invisible characters'],
  ];
  for (const [better, detail] of rows)
    t.match(await tokens.create(user, { ...wrong, ...better }, Date.now()), { refusal: 'grant', detail });
}); // prettier-ignore

t.test('a character that no terminal shows is refused in names, and escaped in output', async (t) => {
  const hidden = ['\n', '\u0085', '\u00ad', '\u034f', '\u061c', '\u115f', '\u180e', '\u200b', '\u2028', '\u202e', '\u2066', '\u3164', '\ufe0f', '\ufeff', '\ufff9', '\ufffb', '\u{e0041}', '\u{e0100}', '\u{1d173}'];
  for (const each of hidden) {
    const code = each.codePointAt(0)?.toString(16);
    t.notOk(isName(`a${each}b`), `U+${code}`);
    t.match(printable(`a${each}b`), /^a(?:\\u[0-9a-f]{4})+b$/, `U+${code}`);
  }
  for (const each of ['José', '\u4f60\u597d', 'e\u0301', '\u{1f600}', 'a\u00a0b']) {
    t.ok(isName(each), each);
    t.equal(printable(each), each);
  }
}); // prettier-ignore
