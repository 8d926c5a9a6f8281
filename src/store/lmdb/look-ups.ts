import type { Database } from 'lmdb';
import { LRUCache } from 'lru-cache';
import type { Session } from '../../domain/session.js';
import type { Token } from '../../domain/token.js';
import type { User } from '../../domain/user.js';
import { DIGEST_PART, naming, type RemovableKind, sessionOf, tokenOf, userOf } from '../records.js';
import type { SessionWithOwner } from '../session-store.js';
import type { TokenWithOwner } from '../token-store.js';
import type { Databases } from './databases.js';

/** The look-ups for requests: a token or session by the digest of its secret, with its owner. */
export class LookUps {
  readonly #tokens: DecodedRecordCache<Token>;
  readonly #sessions: DecodedRecordCache<Session>;
  readonly #users: DecodedRecordCache<User>;

  constructor({ tokens, sessions, users }: Databases) {
    this.#tokens = new DecodedRecordCache(tokens, 'token', tokenOf);
    this.#sessions = new DecodedRecordCache(sessions, 'session', sessionOf);
    this.#users = new DecodedRecordCache(users, 'user', userOf);
  }

  token(digest: string): TokenWithOwner | undefined {
    const token = this.#tokens.getByDigest(digest);
    const owner = token === undefined ? undefined : this.#users.get(token.userId);
    return token === undefined || owner === undefined ? undefined : { token, owner };
  }

  session(digest: string): SessionWithOwner | undefined {
    const session = this.#sessions.getByDigest(digest);
    const owner = session === undefined ? undefined : this.#users.get(session.userId);
    return session === undefined || owner === undefined ? undefined : { session, owner };
  }
}

/** Maximum number of cached records of each kind. */
const MAX_REMEMBERED = 20_000;

/**
 * When the cache is full, one in this many new records evicts another. Records that are read again
 * and again are cached soon. A million that are read once each cost a quarter less than if each of
 * them were cached (`npm run bench:scaling`).
 */
const ONE_IN = 16;

const DIGEST_LENGTH = 43;
/**
 * A digest as a store key, which has the same bytes. The store writes a string into
 * its key character by character, which for a digest takes longer than the look-up
 * itself (instructions counted).
 */
const digestKey = Buffer.alloc(DIGEST_LENGTH) as Buffer & { latin1Write(text: string): void };

interface Known<T> {
  /**
   * The bytes of the record, one character each: uses less memory than a
   * buffer, and is created faster.
   */
  readonly bytes: string;
  readonly value: T;
}

/**
 * A record as the store returns it, valid until its next read. It is a view of something longer;
 * `length` is the length of the record.
 */
type Window = Buffer & { latin1Slice(start: number, end: number): string };

/**
 * Caches a decoded record for as long as its bytes stay the same.
 *
 * Each look-up reads the bytes from the newest snapshot, so a change by any process is seen at
 * once. Only the decoding is saved: a look-up took 17 µs with it and takes 3 µs without (a loop in
 * one process). A record that did not change is the same object every time, so values derived from
 * it can be kept with it.
 */
class DecodedRecordCache<T extends object> {
  readonly #db: Database<unknown, string | Uint8Array>;
  readonly #decoder: Decoder;
  readonly #kind: RemovableKind;
  readonly #decode: (stored: unknown) => T;
  readonly #known = new LRUCache<string, Known<T>>({ max: MAX_REMEMBERED });

  /** @param decode checks a stored record and returns its value */
  constructor(db: Database<unknown, string>, kind: RemovableKind, decode: (stored: unknown) => T) {
    this.#db = db;
    this.#decoder = (db as unknown as { decoder: Decoder }).decoder;
    this.#kind = kind;
    this.#decode = decode;
  }

  /** Returns the record of a digest (SHA-256, base64url). */
  getByDigest(digest: string): T | undefined {
    if (digest.length !== DIGEST_LENGTH) return this.get(digest);
    digestKey.latin1Write(digest);
    return this.#get(digest, digestKey);
  }

  /** Returns a record; undefined if it does not exist. */
  get(key: string): T | undefined {
    return this.#get(key, key);
  }

  #get(key: string, keyInStore: string | Uint8Array): T | undefined {
    const found = this.#db.getBinaryFast(keyInStore) as Window | undefined;
    if (found === undefined) {
      this.#known.delete(key);
      return undefined;
    }
    const bytes = found.latin1Slice(0, found.length);
    const known = this.#known.get(key);
    if (known !== undefined && known.bytes === bytes) return known.value;
    const stored = this.#decoder.decode(found);
    const id = this.#kind === 'user' ? key : key.slice(0, DIGEST_PART);
    const value = naming(this.#kind, id, () => this.#decode(stored));
    if (known !== undefined || this.#known.size < MAX_REMEMBERED || Math.random() < 1 / ONE_IN)
      this.#known.set(key, { bytes, value });
    return value;
  }
}

/** The store's decoder, which its types do not declare. */
interface Decoder {
  decode(record: Uint8Array): unknown;
}
