import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import { KeysUnavailable } from './errors.js';

const FETCH_MS = 5_000;
const MAX_BYTES = 1 << 20;
/** Cache lifetime unless `Cache-Control: max-age` sets another. */
const MAX_AGE_MS = 300_000;
/** Minimum time between fetches, however many unknown key ids arrive. */
const COOLDOWN_MS = 5_000;
/** While the URL is unreachable, cached keys are used for this long after they expire. */
const MAX_STALE_MS = 3_600_000;

const local = new WeakMap<JSONWebKeySet, JWTVerifyGetKey>();
const remote = new Map<string, RemoteKeys>();

/** Returns the keys of a URL or key set. Keys of one URL are shared within the process. */
export function keysOf(jwks: string | URL | JSONWebKeySet): JWTVerifyGetKey {
  if (typeof jwks === 'string' || jwks instanceof URL) {
    const url = String(jwks);
    const keys = remote.get(url) ?? new RemoteKeys(url);
    remote.set(url, keys);
    return keys.find;
  }
  const known = local.get(jwks) ?? createLocalJWKSet(jwks);
  local.set(jwks, known);
  return known;
}

/** Published keys. Fetched when they expire, and when an assertion names an unknown key. */
class RemoteKeys {
  readonly #url: string;
  #keys: JWTVerifyGetKey | undefined;
  /** On the clock of `performance.now()`, like the other times here. */
  #dueAt = -Infinity;
  #triedAt = -Infinity;
  #fetching: Promise<void> | undefined;
  /** Why the last fetch failed; undefined if it succeeded. */
  #fault: unknown;

  constructor(url: string) {
    this.#url = url;
  }

  readonly find: JWTVerifyGetKey = async (header, token) => {
    if (performance.now() >= this.#dueAt) {
      const refreshed = this.#refresh();
      // After a failure, requests do not wait for a URL that may not respond again.
      if (this.#fault === undefined || !this.#areUsable()) await refreshed;
    }
    const keys = this.#usable();
    try {
      return await keys(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || this.#isCoolingDown()) throw error;
      await this.#refresh();
      return this.#usable()(header, token);
    }
  };

  #usable(): JWTVerifyGetKey {
    if (this.#keys === undefined || !this.#areUsable()) throw new KeysUnavailable(this.#fault);
    return this.#keys;
  }

  #areUsable(): boolean {
    return performance.now() < this.#dueAt + MAX_STALE_MS;
  }

  #isCoolingDown(): boolean {
    return this.#fetching === undefined && performance.now() < this.#triedAt + COOLDOWN_MS;
  }

  async #refresh(): Promise<void> {
    if (this.#isCoolingDown()) return;
    this.#fetching ??= this.#fetch().finally(() => (this.#fetching = undefined));
    await this.#fetching;
  }

  /** An error is kept for {@link #usable}, which decides whether older keys may still be used. */
  async #fetch(): Promise<void> {
    this.#triedAt = performance.now();
    try {
      const signal = AbortSignal.timeout(FETCH_MS);
      const response = await fetch(this.#url, { signal, redirect: 'error', headers: { Accept: 'application/json' } });
      if (response.status !== 200) throw new Error(`${this.#url} responded with ${response.status}`);
      this.#keys = createLocalJWKSet(JSON.parse(await textOf(response)) as JSONWebKeySet);
      this.#dueAt = performance.now() + maxAgeOf(response);
      this.#fault = undefined;
    } catch (error) {
      this.#fault = error;
    }
  } // prettier-ignore
}

async function textOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let [text, size] = ['', 0];
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new Error('the key set is too large');
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function maxAgeOf({ headers }: Response): number {
  const [, seconds] = /(?:^|[\s,])max-age=(\d{1,9})/i.exec(headers.get('cache-control') ?? '') ?? [];
  if (seconds === undefined) return MAX_AGE_MS;
  return Math.min(Math.max(Number(seconds) * 1_000, 1_000), MAX_STALE_MS);
}
