import {
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  errors,
  type FetchImplementation,
  type JSONWebKeySet,
  type JWTVerifyGetKey,
} from 'jose';
import { KeysUnavailable } from './errors.js';

const FETCH_MS = 5_000;
const MAX_BYTES = 1 << 20;
/** As long as Latchkey's responses say (`Cache-Control: max-age`). */
const MAX_AGE_MS = 300_000;
/** Minimum time between fetches, however many unknown key ids arrive. */
const COOLDOWN_MS = 5_000;
/** While their URL does not respond, fetched keys are used for this long. */
const MAX_STALE_MS = 3_600_000;

const local = new WeakMap<JSONWebKeySet, JWTVerifyGetKey>();
const remote = new Map<string, JWTVerifyGetKey>();

/** Returns the keys of a URL or key set. Keys of one URL are shared within the process. */
export function keysOf(jwks: string | URL | JSONWebKeySet): JWTVerifyGetKey {
  if (typeof jwks === 'string' || jwks instanceof URL) {
    const url = String(jwks);
    const known = remote.get(url) ?? remoteKeys(url);
    remote.set(url, known);
    return known;
  }
  const known = local.get(jwks) ?? createLocalJWKSet(jwks);
  local.set(jwks, known);
  return known;
}

function remoteKeys(url: string): JWTVerifyGetKey {
  const find = createRemoteJWKSet(new URL(url), {
    timeoutDuration: FETCH_MS,
    cacheMaxAge: MAX_AGE_MS,
    cooldownDuration: COOLDOWN_MS,
    [customFetch]: reusingLast(),
  });
  return async (header, token) =>
    find(header, token).catch((error: unknown) => {
      const isNotOfSet =
        error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
      throw isNotOfSet ? error : new KeysUnavailable(error);
    });
}

/** Fetches a key set. While that fails, the last one is used again, and few fetches are tried. */
function reusingLast(): FetchImplementation {
  let last = '';
  let fetchedAt = -Infinity;
  let failedAt = -Infinity;
  let failure: unknown;
  return async (url, options) => {
    try {
      if (performance.now() < failedAt + COOLDOWN_MS) throw failure;
      const text = await fetchText(url, options);
      createLocalJWKSet(JSON.parse(text) as JSONWebKeySet);
      [last, fetchedAt] = [text, performance.now()];
    } catch (error) {
      if (error !== failure) [failure, failedAt] = [error, performance.now()];
      if (performance.now() >= fetchedAt + MAX_STALE_MS) throw error;
    }
    return new Response(last);
  };
}

async function fetchText(...[url, options]: Parameters<FetchImplementation>): Promise<string> {
  const { status, body } = await fetch(url, options);
  if (status !== 200) throw new Error(`${url} responded with ${status}`);
  const decoder = new TextDecoder();
  let [text, size] = ['', 0];
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new Error('the key set is too large');
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
