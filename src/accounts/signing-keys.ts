import type { JWK, JWTHeaderParameters, JWTPayload } from 'jose';
import {
  ownerOf,
  type PublicKey,
  type SigningAlgorithm,
  type SigningKey,
  type SigningKeys,
} from '../domain/signing-key.js';
import type { EpochMs } from '../domain/time.js';
import { Unavailable } from '../domain/unavailable.js';
import { RecordUnreadable, StoreUnavailable } from '../store/faults.js';
import type { SigningKeyStore } from '../store/store.js';
import { SealBroken, type Sealer } from './sealing.js';
import { SigningSchedule, type SigningSettings } from './signing-schedule.js';

/** Nothing can be signed. Without its assertion no request is forwarded. */
export function signingUnavailable(message: string, options?: ErrorOptions): Unavailable {
  return new Unavailable({ refusal: 'signing_unavailable' }, message, options);
}

/** A key that can sign. */
export interface Signer {
  readonly kid: string;
  readonly algorithm: SigningAlgorithm;
  readonly signsFrom: EpochMs;
  /** Makes a JSON Web Token (RFC 7519). */
  readonly sign: (header: JWTHeaderParameters, claims: JWTPayload) => Promise<string>;
}

interface OpenKey extends Signer {
  readonly sealedKey: string;
  readonly publicKey: PublicKey;
}

/** While the store can't be asked, it is asked this often. */
const RETRY_MS = 1_000;
/** Somebody else changed the keys each time; more often than this is no coincidence. */
const MAX_ATTEMPTS = 20;

// Most servers sign nothing and need not wait for it.
const jose = async () => import('jose');

type KeyStore = Pick<SigningKeyStore, 'get' | 'replace'>;

/**
 * The keys of assertions: makes them, rotates them, and keeps them sealed in the store that all processes share.
 *
 * A change is written only over the revision that it was worked out from, so processes that start or rotate at once agree
 * on one key.
 */
export class KeyRing {
  readonly #store: KeyStore;
  readonly #sealer: Sealer;
  readonly #schedule: SigningSchedule;
  readonly #onAway: (error: StoreUnavailable) => void;
  #keys: readonly OpenKey[] = [];
  /** `performance.now()` from which on the store is asked again. */
  #refreshAt = -Infinity;
  #refreshing: Promise<void> | undefined;

  /** @param onAway called when the store can't be asked and known keys keep signing */
  constructor(
    store: KeyStore,
    sealer: Sealer,
    settings: SigningSettings,
    onAway: (error: StoreUnavailable) => void,
  ) {
    this.#store = store;
    this.#sealer = sealer;
    this.#schedule = new SigningSchedule(settings);
    this.#onAway = onAway;
  }

  /** Seconds that verifiers may keep what {@link published} gives. */
  get maxAge(): number {
    return this.#schedule.maxAge / 1000;
  }

  /** The key that signs, when that is known without asking the store. */
  signer(now: EpochMs): Signer | undefined {
    return performance.now() < this.#refreshAt ? this.#schedule.signer(this.#keys, now) : undefined;
  }

  /** The key that signs. @throws Unavailable */
  async findSigner(now: EpochMs): Promise<Signer> {
    await this.#refresh(now);
    const signer = this.#schedule.signer(this.#keys, now);
    if (signer === undefined) throw signingUnavailable('there is no signing key');
    return signer;
  }

  /** The public halves of all keys: those that sign, that will sign, and whose signatures are in use. */
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
      if (error instanceof RecordUnreadable) throw unusable(error.message, error);
      if (!(error instanceof StoreUnavailable) || this.#keys.length === 0) throw error;
      // A key that is known stays good; verifiers refuse it if it is gone from the store meanwhile.
      this.#refreshAt = performance.now() + RETRY_MS;
      this.#onAway(error);
    }
  }

  /** Reads the keys, and writes them when one is due or over. */
  async #maintain(now: EpochMs): Promise<OpenKey[]> {
    for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
      const stored = (await this.#store.get()) ?? { revision: 0, keys: [] };
      // Before anything is written: who can't open the keys must not add one that nobody else can open.
      const open = await Promise.all(stored.keys.map((key) => this.#open(key)));
      const next = await this.#changed(stored, now);
      if (next === undefined) return open;
      if (await this.#store.replace(next)) return Promise.all(next.keys.map((key) => this.#open(key)));
    }
    throw signingUnavailable('the signing keys keep being changed; try again');
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
        throw unusable('they cannot be opened: they are damaged, or sealed with another sealing key', cause);
      throw cause;
    }
  }
}

function unusable(reason: string, cause: Error): Unavailable {
  return signingUnavailable(
    `the signing keys in the store cannot be used (${reason}); set the sealing key that they were made with, or make new ones with "latchkey store forget-signing-keys"`,
    { cause },
  );
}
