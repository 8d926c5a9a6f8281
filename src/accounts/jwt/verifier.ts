import { errors, jwtVerify, type JWTVerifyOptions } from 'jose';
import type { EpochMs } from '../../util/time.js';
import { Unavailable } from '../../domain/refusal.js';
import type { OnFetch } from '../../net/refreshed-value.js';
import type { Claims } from './decode.js';
import { KeySet } from './key-set.js';
import type { KeySets } from './key-sets.js';
import { createKeySource, type KeySource } from './key-source.js';
import { claimFault, type IssuerSettings } from './subjects.js';

/** Returns why, if a JWT is not valid. @throws Unavailable if the issuer's keys cannot be fetched */
export type Verifier = (jwt: string, now: EpochMs) => Promise<Claims | 'invalid' | 'expired'>;

export function createVerifier(
  settings: IssuerSettings,
  fetched: OnFetch,
  keySets: KeySets,
  source: KeySource = createKeySource(settings, settings.jwks),
): Verifier {
  const { issuer, algorithms, clock_skew: skew } = settings;
  const keys = keySets.of(settings, () => new KeySet(source, fetched));
  const options = {
    issuer,
    algorithms: [...algorithms],
    clockTolerance: skew / 1000,
    requiredClaims: ['exp', 'sub'],
  };
  return async (jwt, now) => {
    try {
      const claims = await verifiedClaims(keys, jwt, { ...options, currentDate: new Date(now) });
      return claimFault(settings, claims) === undefined ? claims : 'invalid';
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      return error instanceof errors.JWTExpired ? 'expired' : 'invalid';
    }
  };
}

/** @throws JOSEError if the JWT is not valid; Unavailable if the keys cannot be fetched */
export async function verifiedClaims(keys: KeySet, jwt: string, options: JWTVerifyOptions): Promise<Claims> {
  try {
    return (await jwtVerify(jwt, keys.find, options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    // The JWT names no key: any matching one may have signed it.
    for await (const key of error) {
      try {
        return (await jwtVerify(jwt, key as Parameters<typeof jwtVerify>[1], options)).payload;
      } catch (failed) {
        // A key that cannot be used, like a short RSA key, is not an error of the JWT.
        const isOfJwt = failed instanceof errors.JOSEError;
        if (isOfJwt && !(failed instanceof errors.JWSSignatureVerificationFailed)) throw failed;
      }
    }
    throw new errors.JWSSignatureVerificationFailed();
  }
}
