import * as fc from 'fast-check';
import t from 'tap';
import type { Sessions } from '../../src/accounts/sessions.js';
import { digestOf, isAccessToken, isMadeUp, newAccessToken } from '../../src/domain/secret.js';
import { Authenticator } from '../../src/gate/authenticate.js';
import type { RequestHead } from '../../src/http/head.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import type { TokenStore } from '../../src/store/core/tokens.js';
import { property } from '../helpers/property.js';

/** A store that cannot answer. */
const away = () => {
  throw new StoreUnavailable('away');
};
const unreachable = { find: away, hasLegacyKeys: away } as unknown as TokenStore;
const authenticator = new Authenticator(unreachable, {} as Sessions);
const asked = (key: string, scheme: RequestHead['scheme']) =>
  authenticator.authenticate({ key, scheme } as RequestHead, Date.now());

const alphanumeric = fc.stringMatching(/^[0-9A-Za-z]{38}$/).map((text) => `lk${text}`);
const mistyped = fc
  .tuple(fc.nat({ max: 37 }), fc.constantFrom('0', 'a', 'A', '9', 'z', 'Z'))
  .map(([at, character]) => {
    const token = newAccessToken();
    return `${token.slice(0, at + 2)}${character}${token.slice(at + 3)}`;
  });

property(
  'refuses a made-up token in every field without asking the store',
  2_000,
  fc.oneof(alphanumeric, mistyped),
  (key) => {
    if (isAccessToken(key)) return;
    if (!isMadeUp(key)) throw new Error(`${key} has another form`);
    for (const scheme of [undefined, 'bearer', 'basic'] as const) {
      const answer = asked(key, scheme);
      if (!('refusal' in answer) || answer.refusal !== 'unauthenticated')
        throw new Error(`${key}: ${JSON.stringify(answer)}`);
    }
  },
);

t.test('asks the store about everything else', (t) => {
  const token = newAccessToken();
  for (const key of [token, 'old key', `lk${'0'.repeat(37)}`, `lk${'0'.repeat(39)}`, `LK${'0'.repeat(38)}`, `lk${'0'.repeat(37)}!`])
    t.throws(() => asked(key, undefined), StoreUnavailable, key);
  t.end();
}); // prettier-ignore

t.test('a legacy key that is a token of another deployment still works', async (t) => {
  const key = newAccessToken();
  const owner = { id: 'U1', locked: false };
  const found = { token: { kind: 'legacy_key', digest: digestOf(key), expiresAt: null }, owner };
  const store = { find: (digest: string) => (digest === digestOf(key) ? found : undefined) };
  const answer = await new Authenticator(store as unknown as TokenStore, {} as Sessions).authenticate(
    { key, scheme: undefined } as RequestHead,
    Date.now(),
  );
  t.match(answer, { credential: 'legacy_key', user: owner });
});
