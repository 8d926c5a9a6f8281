import {
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JWSHeaderParameters,
  jwtVerify,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
} from 'jose';
import { Unavailable } from '../../domain/refusal.js';
import { type OnFetch, RefreshedValue } from '../../net/refreshed-value.js';
import { printable } from '../../util/text.js';
import type { EpochMs } from '../../util/time.js';
import { type Claims, isCredentialForUs, type IssuerSettings } from './subjects.js';
import { createKeySource, type KeySource } from './key-source.js';

/** Returns why, if a JWT is not valid. @throws Unavailable if the issuer's keys cannot be fetched */
export type Verifier = (jwt: string, now: EpochMs) => Promise<Claims | 'invalid' | 'expired'>;

export function openKeySet(settings: IssuerSettings, onFetch: OnFetch): KeySet {
  return new KeySet(createKeySource(settings, settings.jwks), onFetch);
}

export function createVerifier(settings: IssuerSettings, keys: KeySet): Verifier {
  const { issuer, algorithms, clock_skew: skew } = settings;
  const options = {
    issuer,
    algorithms: [...algorithms],
    clockTolerance: skew / 1000,
    requiredClaims: ['exp', 'sub'],
  };
  return async (jwt, now) => {
    try {
      const claims = await verifiedClaims(keys, jwt, { ...options, currentDate: new Date(now) });
      return isCredentialForUs(settings, claims) ? claims : 'invalid';
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

type Keys = ReturnType<typeof createLocalJWKSet>;

const TIMES = { after: 5 * 60_000, staleFor: 10 * 60_000, retry: 2_000 };
/** At most two fetches in it, however many unknown keys are named. */
const COOLDOWN_MS = 30_000;

/**
 * Unlike in jose's remote key set, known keys stay in use while they cannot be fetched. The second fetch of a
 * cooldown finds a key that was added just after the first.
 */
export class KeySet {
  readonly #keys: RefreshedValue<Keys>;

  constructor(source: KeySource, onFetch?: OnFetch, clock?: () => number, cooldown = COOLDOWN_MS) {
    const fetchKeys = async () => createLocalJWKSet(await source());
    this.#keys = new RefreshedValue(fetchKeys, { ...TIMES, cooldown }, onFetch, clock);
  }

  /** @throws JOSEError if no key matches; Unavailable if the keys cannot be fetched */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    const keys = await this.#keys.get().catch((cause: unknown) => {
      throw unavailable(cause);
    });
    const found =
      (await lookUp(keys, header, token)) ?? (await lookUp(await this.#keys.newer(), header, token));
    if (found !== undefined) return found;
    const { failure } = this.#keys;
    throw failure === undefined ? new errors.JWKSNoMatchingKey() : unavailable(failure);
  };

  /** Makes the next request wait for newer keys. */
  expire(): void {
    this.#keys.expire();
  }
}

/** @throws JOSEError if several keys match, or the matching key cannot be used */
async function lookUp(keys: Keys | undefined, header: JWSHeaderParameters, token: FlattenedJWSInput) {
  try {
    return await keys?.(header, token);
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return undefined;
    throw error;
  }
}

function unavailable(cause: unknown): Unavailable {
  const reason = cause instanceof Error ? `: ${printable(cause.message)}` : '';
  const message = `the keys of the issuer cannot be fetched${reason}`;
  return new Unavailable({ refusal: 'key_set_unavailable' }, message, { cause });
}
