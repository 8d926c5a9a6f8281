import type { EpochMs } from './time.js';

/** How assertions are signed (RFC 7518 3.4, RFC 8037 3.1). */
export type SigningAlgorithm = 'EdDSA' | 'ES256';

/** A key that signs assertions. */
export interface SigningKey {
  /** Names it in the header of what it signs (RFC 7515 4.1.4). */
  readonly kid: string;
  readonly algorithm: SigningAlgorithm;
  /**
   * Both halves as a JSON Web Key, sealed. What is published comes out of it, so whoever can write to the store but
   * can't seal is not able to add a key.
   */
  readonly sealedKey: string;
  /** It is published before and signs from here on, until the next one of its kind does. */
  readonly signsFrom: EpochMs;
}

/** The half of a signing key that verifies, as it is published (RFC 7517 4). */
export interface PublicKey {
  readonly kty: string;
  readonly crv: string;
  readonly x: string;
  /** Only elliptic curves with two coordinates have it. */
  readonly y?: string | undefined;
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  readonly use: 'sig';
}

/** All keys of a deployment: those that sign, that will sign, and whose signatures are still in use. */
export interface SigningKeys {
  /** Grows by one with each change, so that two who change it at once notice. */
  readonly revision: number;
  readonly keys: readonly SigningKey[];
}

/** What the sealed halves of a key are bound to. */
export function ownerOf({ kid, algorithm }: Pick<SigningKey, 'kid' | 'algorithm'>): string {
  return `signing key ${algorithm} ${kid}`;
}
