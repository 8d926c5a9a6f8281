import type { JWK, JWTHeaderParameters, JWTPayload } from 'jose';
import type { Config } from '../config/schema/config.js';
import { Unavailable } from '../domain/refusal.js';
import {
  ownerOf,
  type PublicKey,
  type SigningAlgorithm,
  type SigningKey,
  type SigningKeys,
} from '../domain/signing-key.js';
import { RecordNewer, RecordUnreadable, StoreUnavailable } from '../store/faults.js';
import type { SigningKeyStore } from '../store/core/usage.js';
import type { EpochMs } from '../util/time.js';
import { SealBroken, type Sealer } from './sealing.js';

export function signingUnavailable(message: string, options?: ErrorOptions): Unavailable {
  return new Unavailable({ refusal: 'signing_unavailable' }, message, options);
}

export interface Signer {
  readonly kid: string;
  readonly algorithm: SigningAlgorithm;
  readonly signsFrom: EpochMs;
  readonly sign: (header: JWTHeaderParameters, claims: JWTPayload) => Promise<string>;
}

interface OpenKey extends Signer {
  readonly sealedKey: string;
  readonly publicKey: PublicKey;
}

/** While the store is unavailable. */
const RETRY_MS = 1_000;
/** While others change the keys. */
const MAX_ATTEMPTS = 20;

// Loaded on demand: most servers sign nothing.
const jose = async () => import('jose');

type KeyStore = Pick<SigningKeyStore, 'get' | 'replace'>;

/**
 * The signing keys of assertions, sealed in the store. A change is written only over the revision that it was
 * computed from, so that processes that start or rotate at the same time agree on one key.
 */
export class KeyRing {
  readonly #store: KeyStore;
  readonly #sealer: Sealer;
  readonly #schedule: SigningSchedule;
  readonly #onStoreUnavailable: (error: StoreUnavailable) => void;
  #keys: readonly OpenKey[] = [];
  /** By `performance.now()`. */
  #refreshAt = -Infinity;
  #refreshing: Promise<void> | undefined;

  constructor(
    store: KeyStore,
    sealer: Sealer,
    settings: SigningSettings,
    onStoreUnavailable: (error: StoreUnavailable) => void,
  ) {
    this.#store = store;
    this.#sealer = sealer;
    this.#schedule = new SigningSchedule(settings);
    this.#onStoreUnavailable = onStoreUnavailable;
  }

  /** Seconds for which verifiers may cache the keys. */
  get maxAge(): number {
    return this.#schedule.maxAge / 1000;
  }

  /** Undefined if the store must be asked. */
  signer(now: EpochMs): Signer | undefined {
    return performance.now() < this.#refreshAt ? this.#schedule.signer(this.#keys, now) : undefined;
  }

  async findSigner(now: EpochMs): Promise<Signer> {
    await this.#refresh(now);
    const signer = this.#schedule.signer(this.#keys, now);
    if (signer === undefined) throw signingUnavailable('there is no signing key');
    return signer;
  }

  /** Of the keys that sign, will sign, or whose signatures are still in use. */
  async published(now: EpochMs): Promise<PublicKey[]> {
    await this.#refresh(now);
    return this.#keys.map(({ publicKey }) => publicKey);
  }

  async #refresh(now: EpochMs): Promise<void> {
    if (performance.now() < this.#refreshAt) return;
    this.#refreshing ??= this.#load(now).finally(() => (this.#refreshing = undefined));
    await this.#refreshing;
  }

  async #load(now: EpochMs): Promise<void> {
    try {
      this.#keys = await this.#maintain(now);
      this.#refreshAt = performance.now() + this.#schedule.refresh;
    } catch (error) {
      if (error instanceof RecordUnreadable || error instanceof RecordNewer)
        throw unusable(error.message, error);
      if (!(error instanceof StoreUnavailable) || this.#keys.length === 0) throw error;
      // Known keys stay usable. If one was removed meanwhile, verifiers reject its signatures.
      this.#refreshAt = performance.now() + RETRY_MS;
      this.#onStoreUnavailable(error);
    }
  }

  async #maintain(now: EpochMs): Promise<OpenKey[]> {
    for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
      const stored = (await this.#store.get()) ?? { revision: 0, keys: [] };
      // Before any write: a process that cannot open the keys must not add one that nobody else can open.
      const open = await Promise.all(stored.keys.map((key) => this.#open(key)));
      const next = await this.#changed(stored, now);
      if (next === undefined) return open;
      if (await this.#store.replace(next)) return Promise.all(next.keys.map((key) => this.#open(key)));
    }
    throw signingUnavailable('the signing keys are being changed elsewhere; try again');
  }

  async #changed({ revision, keys }: SigningKeys, now: EpochMs): Promise<SigningKeys | undefined> {
    const kept = this.#schedule.kept(keys, now);
    const due = this.#schedule.dueKey(kept, now);
    if (due === undefined && kept.length === keys.length) return undefined;
    const added = due === undefined ? [] : [await this.#make(due)];
    return { revision: revision + 1, keys: [...kept, ...added] };
  }

  async #make(signsFrom: EpochMs): Promise<SigningKey> {
    const { algorithm } = this.#schedule;
    const { calculateJwkThumbprint, exportJWK, generateKeyPair } = await jose();
    const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
    const jwk = await exportJWK(privateKey);
    const kid = await calculateJwkThumbprint(jwk);
    return {
      kid,
      algorithm,
      sealedKey: this.#sealer.seal(JSON.stringify(jwk), ownerOf({ kid, algorithm })),
      signsFrom,
    };
  }

  async #open({ kid, algorithm, sealedKey, signsFrom }: SigningKey): Promise<OpenKey> {
    const known = this.#keys.find((key) => key.kid === kid && key.sealedKey === sealedKey);
    if (known !== undefined) return { ...known, signsFrom };
    const { importJWK, SignJWT } = await jose();
    try {
      const jwk = JSON.parse(this.#sealer.open(sealedKey, ownerOf({ kid, algorithm }))) as JWK;
      const key = await importJWK(jwk, algorithm);
      const { kty, crv, x, y } = jwk as JWK & Record<'kty' | 'crv' | 'x', string>;
      const half = { kty, crv, x, ...(y === undefined ? {} : { y }) };
      return {
        kid,
        algorithm,
        sealedKey,
        signsFrom,
        sign: async (header, claims) => new SignJWT(claims).setProtectedHeader(header).sign(key),
        publicKey: { ...half, kid, alg: algorithm, use: 'sig' },
      };
    } catch (cause) {
      if (cause instanceof SealBroken)
        throw unusable(
          'they cannot be decrypted: they are damaged, or encrypted with another sealing key',
          cause,
        );
      throw cause;
    }
  }
}

function unusable(reason: string, cause: Error): Unavailable {
  return signingUnavailable(
    `the signing keys in the store cannot be used (${reason}); set the sealing key that they were created with, or create new ones with "latchkey store forget-signing-keys"`,
    { cause },
  );
}

export type SigningSettings = Pick<Config['identity']['assertion'], 'algorithm' | 'rotate_after' | 'ttl'>;

const MAX_AGE_MS = 300_000;
/** The longest `ttl` of a configuration; another process may use it. */
const MAX_TTL_MS = 3_600_000;

/**
 * When keys are created, sign and are removed. Verifiers cache keys for `maxAge`, and processes read them
 * every half of it. So a key is published for twice `maxAge` before it signs; the rest allows for clock
 * differences.
 */
export class SigningSchedule {
  readonly algorithm: SigningAlgorithm;
  readonly maxAge: number;
  readonly refresh: number;
  readonly #rotateAfter: number;
  readonly #lead: number;
  readonly #retention: number;

  constructor({ algorithm, rotate_after: rotateAfter, ttl }: SigningSettings) {
    this.algorithm = algorithm;
    this.maxAge = Math.min(MAX_AGE_MS, Math.floor(rotateAfter / 4_000) * 1_000);
    this.refresh = this.maxAge / 2;
    this.#rotateAfter = rotateAfter;
    this.#lead = 2 * this.maxAge;
    this.#retention = Math.max(ttl, Math.min(MAX_TTL_MS, rotateAfter)) + this.#lead;
  }

  /** The newest of the algorithm, or of any if it has none yet. */
  signer<K extends Pick<SigningKey, 'algorithm' | 'signsFrom'>>(
    keys: readonly K[],
    now: EpochMs,
  ): K | undefined {
    let best: K | undefined;
    for (const key of keys) if (best === undefined || this.#isBetter(key, best, now)) best = key;
    return best;
  }

  /** When a key to be created now has to start signing; undefined if none is due. */
  dueKey(keys: readonly SigningKey[], now: EpochMs): EpochMs | undefined {
    // The first key signs at once, because no verifier has cached an earlier set of keys.
    if (keys.length === 0) return now;
    const own = keys.filter(({ algorithm }) => algorithm === this.algorithm);
    const newest = Math.max(...own.map(({ signsFrom }) => signsFrom));
    return own.length === 0 || now >= newest + this.#rotateAfter - this.#lead ? now + this.#lead : undefined;
  }

  kept(keys: readonly SigningKey[], now: EpochMs): SigningKey[] {
    return keys.filter((key) => now < this.#endOf(key, keys, now) + this.#retention);
  }

  #isBetter(
    key: Pick<SigningKey, 'algorithm' | 'signsFrom'>,
    than: Pick<SigningKey, 'algorithm' | 'signsFrom'>,
    now: EpochMs,
  ): boolean {
    const signs = key.signsFrom <= now;
    if (signs !== than.signsFrom <= now) return signs;
    // Where the clock is behind that of the process that made the first key, none signs yet.
    if (!signs) return key.signsFrom < than.signsFrom;
    if (key.algorithm !== than.algorithm) return key.algorithm === this.algorithm;
    return key.signsFrom > than.signsFrom;
  }

  #endOf(key: SigningKey, keys: readonly SigningKey[], now: EpochMs): EpochMs {
    const later = keys.filter(({ signsFrom }) => signsFrom > key.signsFrom && signsFrom <= now);
    const successor = later.find(({ algorithm }) => algorithm === key.algorithm);
    if (successor !== undefined) return successor.signsFrom;
    // Nobody rotates the keys of an algorithm that is no longer in use.
    return later.length > 0 && key.algorithm !== this.algorithm
      ? key.signsFrom + this.#rotateAfter + this.#lead
      : Infinity;
  }
}
