import type { Database } from 'lmdb';
import { LRUCache } from 'lru-cache';
import type { Session } from '../../domain/session.js';
import type { Token } from '../../domain/token.js';
import type { User } from '../../domain/user.js';
import { sessionOf, tokenOf, userOf } from '../records.js';
import type { SessionWithOwner } from '../session-store.js';
import type { TokenWithOwner } from '../token-store.js';
import type { Databases } from './databases.js';

/** The look-ups of every request: by the digest of a secret, with the owner. */
export class LookUps {
  readonly #tokens: DecodedRecordCache<Token>;
  readonly #sessions: DecodedRecordCache<Session>;
  readonly #users: DecodedRecordCache<User>;

  constructor({ tokens, sessions, users }: Databases) {
    this.#tokens = new DecodedRecordCache(tokens, tokenOf);
    this.#sessions = new DecodedRecordCache(sessions, sessionOf);
    this.#users = new DecodedRecordCache(users, userOf);
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

/** Records of each kind that are remembered. */
const MAX_REMEMBERED = 20_000;

/**
 * When there are more, one in so many is remembered in the place of another. Records that are asked for again and again get their
 * place soon; a million that are asked for once each cost a quarter less than if each of them took one (`npm run bench:scaling`).
 */
const ONE_IN = 16;

const DIGEST_LENGTH = 43;
/**
 * A digest as the store's key, which has the same bytes. The store writes a text into its key one character after the other,
 * which for a digest takes longer than the look-up itself (instructions counted).
 */
const digestKey = Buffer.alloc(DIGEST_LENGTH) as Buffer & { latin1Write(text: string): void };

interface Known<T> {
  /** The bytes of the record, one character each: less memory than bytes of its own, and made faster. */
  readonly bytes: string;
  readonly value: T;
}

/** A record as the store shows it until its next read: a window on something longer, of which `length` says how far it goes. */
type Window = Buffer & { latin1Slice(start: number, end: number): string };

/**
 * Decodes a record once for as long as its bytes stay the same. Each look-up reads those bytes from the newest snapshot, so a
 * change by any process is seen at once; what is saved is the decoding: a look-up took 17 µs with it, and takes 3 so (a loop in
 * one process). And because a record that did not change is the same object every time, what is made of it can be kept beside it.
 */
class DecodedRecordCache<T extends object> {
  readonly #db: Database<unknown, string | Uint8Array>;
  readonly #decoder: Decoder;
  readonly #decode: (stored: unknown) => T;
  readonly #known = new LRUCache<string, Known<T>>({ max: MAX_REMEMBERED });

  /** @param decode checks what was stored and gives back its value */
  constructor(db: Database<unknown, string>, decode: (stored: unknown) => T) {
    this.#db = db;
    this.#decoder = (db as unknown as { decoder: Decoder }).decoder;
    this.#decode = decode;
  }

  /** The record of a digest: SHA-256, base64url. */
  getByDigest(digest: string): T | undefined {
    if (digest.length !== DIGEST_LENGTH) return this.get(digest);
    digestKey.latin1Write(digest);
    return this.#get(digest, digestKey);
  }

  /** The record; undefined when it is not there. */
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
    const value = this.#decode(this.#decoder.decode(found));
    if (known !== undefined || this.#known.size < MAX_REMEMBERED || Math.random() < 1 / ONE_IN)
      this.#known.set(key, { bytes, value });
    return value;
  }
}

/** How the store decodes what it read; its types leave it open. */
interface Decoder {
  decode(record: Uint8Array): unknown;
}
