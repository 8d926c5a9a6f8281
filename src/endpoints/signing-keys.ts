import type { KeyRing } from '../accounts/signing-keys.js';
import type { Handler } from './call.js';
import type { SigningKeySet } from './schema/answers.js';

/** GET /.well-known/jwks.json: the keys that verify assertions, as a JSON Web Key Set (RFC 7517 5). @param keys null when there are no assertions: no route leads here then */
export function signingKeysHandler(keys: KeyRing | null): Handler<SigningKeySet> {
  return async ({ head, now }) => {
    if (keys === null) return { refusal: 'not_found', detail: `There is nothing at ${head.path}` };
    return { status: 200, json: { keys: await keys.published(now) }, maxAge: keys.maxAge };
  };
}
