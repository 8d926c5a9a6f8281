import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { chmodSync, linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder, readRegularFile } from '../files/files.js';

const FORMAT = 'v1';
const KEY_BYTES = 32;

export class SealingKeyMissing extends Error {
  readonly code = 'SEALING_KEY_MISSING';
  constructor() {
    super(
      'store.sealing_key is not set; two-factor authentication, signed assertions and OpenID Connect logins need it (make one with "openssl rand -hex 32")',
    );
  }
}

/** A value is damaged, or was sealed with another key or for another owner. */
export class SealBroken extends Error {
  readonly code = 'SEAL_BROKEN';
}

/**
 * Encrypts stored secrets with AES-256-GCM. The owner's id is associated data, so that a value cannot be
 * moved to another owner.
 */
export class Sealer {
  readonly #key: Buffer | null;

  /** @param key null makes sealing and opening throw */
  constructor(key: Buffer | null) {
    this.#key = key;
  }

  /** A sealer with a derived key (RFC 5869), so that values of one purpose reveal nothing about others. */
  derive(purpose: string): Sealer {
    if (this.#key === null) return this;
    return new Sealer(Buffer.from(hkdfSync('sha256', this.#key, '', purpose, KEY_BYTES)));
  }

  /** @throws SealingKeyMissing */
  seal(plain: string, owner: string): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.#keyOrThrow(), nonce).setAAD(Buffer.from(owner));
    const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return [FORMAT, nonce.toString('base64url'), sealed.toString('base64url')].join('.');
  }

  /** @throws SealBroken, SealingKeyMissing */
  open(sealed: string, owner: string): string {
    const key = this.#keyOrThrow();
    try {
      const [format, nonce = '', text = ''] = sealed.split('.');
      if (format !== FORMAT) throw new Error(`unknown format ${format}`);
      const bytes = Buffer.from(text, 'base64url');
      const cipher = createDecipheriv('aes-256-gcm', key, Buffer.from(nonce, 'base64url'));
      cipher.setAAD(Buffer.from(owner)).setAuthTag(bytes.subarray(-16));
      return Buffer.concat([cipher.update(bytes.subarray(0, -16)), cipher.final()]).toString('utf8');
    } catch (cause) {
      throw new SealBroken(`the encrypted secret of ${owner} cannot be decrypted`, { cause });
    }
  }

  #keyOrThrow(): Buffer {
    if (this.#key === null) throw new SealingKeyMissing();
    return this.#key;
  }
}

/** Created (mode 0600) the first time; safe for concurrent processes. */
export function loadSealingKey(file: string): Buffer {
  const known = readKey(file);
  if (known !== undefined) return known;
  makeFolder(dirname(file), 0o700);
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    writeFileSync(draft, randomBytes(KEY_BYTES), { mode: 0o600, flag: 'wx', flush: true });
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return readFileSync(file);
}

function readKey(file: string): Buffer | undefined {
  try {
    const key = readRegularFile(file);
    if (key.length !== KEY_BYTES)
      throw new Error(`${file}: expected a key of ${KEY_BYTES} bytes, found ${key.length}`);
    removeAccessForOthers(file);
    return key;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A key from a copy may be world-readable. Group access stays: some volumes are shared through a group. */
function removeAccessForOthers(file: string): void {
  const { mode, uid } = statSync(file);
  if ((mode & 0o007) !== 0 && uid === process.getuid?.()) chmodSync(file, mode & 0o770);
}
