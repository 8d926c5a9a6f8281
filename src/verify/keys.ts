import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import { KeysUnavailable } from './errors.js';

const FETCH_MS = 5_000;
const MAX_BYTES = 1 << 20;
/** Unless `Cache-Control: max-age` names another time. */
const MAX_AGE_MS = 300_000;
/** Keys are asked for no more often than this, whatever names of keys come. */
const COOLDOWN_MS = 5_000;
/** While the address does not answer, known keys are used for so long after they are due. */
const MAX_STALE_MS = 3_600_000;

const local = new WeakMap<JSONWebKeySet, JWTVerifyGetKey>();
const remote = new Map<string, RemoteKeys>();

/** The keys of an address or a key set. Those of one address are fetched once for the whole process. */
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

/** Published keys: fetched when they are due, and when an assertion names one that is not among them. */
class RemoteKeys {
  readonly #url: string;
  #keys: JWTVerifyGetKey | undefined;
  /** Of `performance.now()`, like the other times here. */
  #dueAt = -Infinity;
  #triedAt = -Infinity;
  #fetching: Promise<void> | undefined;
  /** Why the last fetch failed. */
  #fault: unknown;

  constructor(url: string) {
    this.#url = url;
  }

  readonly find: JWTVerifyGetKey = async (header, token) => {
    if (performance.now() >= this.#dueAt) await this.#refresh();
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
    if (this.#keys === undefined || performance.now() >= this.#dueAt + MAX_STALE_MS)
      throw new KeysUnavailable(this.#fault);
    return this.#keys;
  }

  #isCoolingDown(): boolean {
    return this.#fetching === undefined && performance.now() < this.#triedAt + COOLDOWN_MS;
  }

  async #refresh(): Promise<void> {
    if (this.#isCoolingDown()) return;
    this.#fetching ??= this.#fetch().finally(() => (this.#fetching = undefined));
    await this.#fetching;
  }

  /** A fault is kept for {@link #usable}, which knows whether older keys will do. */
  async #fetch(): Promise<void> {
    this.#triedAt = performance.now();
    try {
      const signal = AbortSignal.timeout(FETCH_MS);
      const response = await fetch(this.#url, { signal, redirect: 'error', headers: { Accept: 'application/json' } });
      if (response.status !== 200) throw new Error(`${this.#url} answered ${response.status}`);
      this.#keys = createLocalJWKSet(JSON.parse(await textOf(response)) as JSONWebKeySet);
      this.#dueAt = performance.now() + maxAgeOf(response);
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
