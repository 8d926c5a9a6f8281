// The requests that workloads are made of, and the secrets that they carry.
import { hashedPassword, newKeys, newSessionIds } from '../lib/records.mjs';

export const KEYS = 1_000;

/** Secrets of a run. */
export const newSecrets = async () => ({
  keys: newKeys(KEYS),
  limitedKeys: newKeys(KEYS),
  sessionIds: newSessionIds(KEYS),
  passwordHash: await hashedPassword(),
});

/** What a client of an API sends along, as curl does. */
export const COMMON = { 'User-Agent': 'curl/8.5.0', Accept: '*/*' };
export const get = (path, fields) => ({ method: 'GET', path, fields: { ...COMMON, ...fields } });
export const withKey = (path) => (key) => get(path, { 'Service-Key': key });
const keysFor = (peer, place) => (peer.oneKey ? place.keys.slice(0, 1) : place.keys);

/** A small GET with a token. */
export const TOKEN_REQUESTS = {
  name: 'token',
  requests: (peer, place) => keysFor(peer, place).map(withKey('/api/items/42')),
};
