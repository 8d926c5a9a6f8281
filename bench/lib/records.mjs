// Users, tokens and sessions for measurements, written by the store's own code.
import { hash } from '@node-rs/argon2';
import { built } from './built.mjs';

const { openLmdbStore } = await built('store/lmdb');
const { digestOf, newAccessToken, newId, newSessionId } = await built('domain/secret');
const USERS = 100;
const BATCH = 20_000;

/** The password of every user. */
export const PASSWORD = 'correct horse battery staple';

/** Returns its hash, as expensive as Latchkey's own. */
export const hashedPassword = async () => hash(PASSWORD, { memoryCost: 47_104, timeCost: 1, parallelism: 1 });

/**
 * Returns a user record.
 *
 * @param {number} index
 * @param {string | null} passwordHash
 * @returns {import('../../src/domain/user.js').User}
 */
export const userAt = (index, passwordHash) => ({
  id: `user${index % USERS}`,
  customerId: 'C1',
  login: `user${index % USERS}@example.com`,
  name: 'A user',
  role: 'engineer',
  passwordHash,
  otpSecret: null,
  locked: false,
  createdAt: Date.now(),
  updatedAt: Date.now(),
});

/**
 * Returns a token record of typical length.
 *
 * @param {string} digest
 * @param {number} index
 * @returns {import('../../src/domain/token.js').Token}
 */
export const tokenOf = (digest, index, scopes = ['global']) => ({
  id: newId(),
  digest,
  kind: 'token',
  userId: userAt(index, null).id,
  name: 'a token of usual length',
  scopes,
  services: [],
  serviceId: null,
  createdAt: Date.now(),
  updatedAt: Date.now(),
  expiresAt: null,
});

/** The characters of base64url in the store's key order. */
const LETTERS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz';

/**
 * Returns the digest of one of many unused tokens. The digests are evenly distributed and in
 * ascending order: ten million records take minutes to write in key order, and hours in random
 * order.
 *
 * @param {number} index
 * @param {number} total
 */
export function unusedDigestAt(index, total) {
  let part = (index + 0.5) / total;
  let prefix = '';
  for (let i = 0; i < 8; i++) {
    part *= 64;
    prefix += LETTERS[Math.floor(part)];
    part -= Math.floor(part);
  }
  return prefix + digestOf(`unused ${index}`).slice(prefix.length);
}

/**
 * @param {number} index
 * @param {number} total
 */
const unusedTokenAt = (index, total) => ({
  ...tokenOf(unusedDigestAt(index, total), index),
  id: `unused${String(index).padStart(16, '0')}`,
});

/**
 * @param {string} digest
 * @param {number} index
 */
const sessionOf = (digest, index) => ({
  digest,
  id: newId(),
  userId: userAt(index, null).id,
  createdAt: Date.now(),
  endsAt: Date.now() + 86_400_000,
  idleEndsAt: Date.now() + 86_400_000,
  lastSeenAt: Date.now(),
  ip: '127.0.0.1',
  userAgent: null,
});

/**
 * Fills a store in a folder.
 *
 * @param {string} path
 * @param {{ keys?: string[], limitedKeys?: string[], sessionIds?: string[], more?: number,
 *   passwordHash?: string | null }} what
 *   secrets to write records for; limited keys may only purge; `more` is a number of unused tokens
 * @param {(text: string) => void} progress
 */
export async function fillStore(path, { keys = [], limitedKeys = [], sessionIds = [], more = 0, passwordHash = null }, progress = () => undefined) {
  const store = openLmdbStore(path);
  const users = Array.from({ length: USERS }, (_, index) => userAt(index, passwordHash));
  await store.directory.change({ customers: [{ id: 'C1', name: 'One' }], users }, Date.now());
  const tokens = keys.map((key, index) => tokenOf(digestOf(key), index));
  const limited = limitedKeys.map((key, index) => tokenOf(digestOf(key), index, ['purge_select']));
  for (let from = 0; from < tokens.length; from += BATCH)
    await store.directory.change({ tokens: tokens.slice(from, from + BATCH) }, Date.now());
  await store.directory.change({ tokens: limited }, Date.now());
  for (const [index, id] of sessionIds.entries()) await store.sessions.create(sessionOf(digestOf(id), index), users[index % USERS], null);
  for (let from = 0; from < more; from += BATCH) {
    const some = Array.from({ length: Math.min(BATCH, more - from) }, (_, i) => unusedTokenAt(from + i, more));
    await store.directory.change({ tokens: some }, Date.now());
    progress(`${from + some.length} of ${more} tokens are in the store`);
  }
  await store.maintenance.close();
} // prettier-ignore

/** @param {number} count */
export const newKeys = (count) => Array.from({ length: count }, () => newAccessToken());
/** @param {number} count */
export const newSessionIds = (count) => Array.from({ length: count }, () => newSessionId());
