// The requests of the workloads, and the secrets they carry.
import { hashedPassword, newKeys, newSessionIds } from '../lib/records.mjs';

/** @import { Request } from '../lib/wrk.mjs' */
/** @import { Asked, Place } from './subjects.mjs' */
/**
 * The requests to a subject, and the expected status of the response (200).
 *
 * @typedef {{ name: string, requests: (peer: Asked, place: Place) => Request[], expects?: number,
 *   connections?: number }} Requests
 */

export const KEYS = 1_000;

/** Generates the secrets of a run. */
export const newSecrets = async () => ({
  keys: newKeys(KEYS),
  limitedKeys: newKeys(KEYS),
  sessionIds: newSessionIds(KEYS),
  passwordHash: await hashedPassword(),
});

/** Headers that an API client sends, as curl does. */
export const COMMON = { 'User-Agent': 'curl/8.5.0', Accept: '*/*' };
/**
 * @param {string} path
 * @param {Record<string, string>} fields
 */
export const get = (path, fields) => ({ method: 'GET', path, fields: { ...COMMON, ...fields } });
/** @param {string} path */
export const withKey = (path) => (/** @type {string} */ key) => get(path, { 'Service-Key': key });
/**
 * @param {Asked} peer
 * @param {Place} place
 */
const keysFor = (peer, place) => (peer.oneKey ? place.keys.slice(0, 1) : place.keys);

/**
 * A small GET with a token.
 *
 * @type {Requests}
 */
export const TOKEN_REQUESTS = {
  name: 'token',
  requests: (peer, place) => keysFor(peer, place).map(withKey('/api/items/42')),
};
