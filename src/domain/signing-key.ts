import type { EpochMs } from '../util/time.js';

/** Algorithms for signing assertions (RFC 7518 3.4, RFC 8037 3.1). */
export type SigningAlgorithm = 'EdDSA' | 'ES256';

export interface SigningKey {
  readonly kid: string;
  readonly algorithm: SigningAlgorithm;
  /** Both halves, sealed: writing to the store without the sealing key adds no key. */
  readonly sealedKey: string;
  /** It is published earlier, and signs until the next key of its algorithm starts. */
  readonly signsFrom: EpochMs;
}

/** The public half of a signing key, as published (RFC 7517 4). */
export interface PublicKey {
  readonly kty: string;
  readonly crv: string;
  readonly x: string;
  readonly y?: string | undefined;
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  readonly use: 'sig';
}

/** All keys of a deployment: current ones, future ones, and ones whose signatures are still in use. */
export interface SigningKeys {
  /** Incremented by each change, so that concurrent changes are detected. */
  readonly revision: number;
  readonly keys: readonly SigningKey[];
}

export function ownerOf({ kid, algorithm }: Pick<SigningKey, 'kid' | 'algorithm'>): string {
  return `signing key ${algorithm} ${kid}`;
}
