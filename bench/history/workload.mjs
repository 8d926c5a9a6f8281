// Clients that create, use and revoke tokens and sessions at random, at a steady rate however long
// the answers take.
import { Pool } from 'undici';
import { meaningOf } from './checker.mjs';
import { loginAt, PASSWORD } from './sidecars.mjs';

/** @import { Random } from '../fuzz/random.mjs' */
/** @import { Meaning } from './checker.mjs' */
/** @import { Operation, Recorder } from './record.mjs' */
/** @typedef {keyof typeof RATES} Act */
/** @typedef {'token' | 'session'} Kind */
/**
 * @typedef {{ name: string, kind: Kind, id: string | null, headers: Record<string, string>,
 *   endedAt: number }} Credential
 */
/** @typedef {Omit<Operation, 'type' | 'start' | 'end' | 'status'>} Asked */
/** @typedef {{ status: number | null, text: string, cookie: string, error?: string }} Reply */
/**
 * @typedef {{ method: 'GET' | 'POST' | 'DELETE', headers?: Record<string, string>, form?:
 *   Record<string, string> }} Request
 */

/** Time limit of a request, in milliseconds. */
const TIMEOUT_MS = 6_000;
const TICK_MS = 10;
/** With fewer live credentials, none is revoked. */
const LEAST_LIVE = 20;
/** Number created before the first fault, one after another; every other one is revoked. */
const FIRST = 6;
/** Number created after those, some concurrently. */
const MORE = 24;
/** Time after a revocation, in milliseconds, during which a cache may still know the credential. */
const RECENT_MS = 15_000;
const READ_BACK_AT_ONCE = 16;
const MORE_AT_ONCE = 4;

/** Operations per second at a `scale` of 1. */
const RATES = { use: 120, token: 4, session: 1, revoke: 5 };

/** Random clients of some sidecars, and the credentials they know. */
export class Workload {
  #sidecars;
  #random;
  #recorder;
  #pools;
  /** @type {Credential[]} */
  #live = [];
  /** @type {Credential[]} */
  #ended = [];
  /** @type {Credential[]} */
  #repeat = [];
  /** @type {Set<Promise<unknown>>} */
  #under = new Set();
  #count = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /**
   * @param {{ sidecars: { index: number, url: string }[], random: Random, recorder: Recorder }}
   *   what
   */
  constructor({ sidecars, random, recorder }) {
    this.#sidecars = sidecars;
    this.#random = random;
    this.#recorder = recorder;
    this.#pools = sidecars.map(({ url }) => new Pool(url, { connections: 256 }));
  }

  /** The number of acknowledged credentials so far. */
  get size() {
    return this.#live.length + this.#ended.length;
  }

  /**
   * Starts the clients at {@link RATES} times a scale.
   *
   * @param {number} scale
   */
  start(scale) {
    const due = { use: 0, token: 0, session: 0, revoke: 0 };
    let last = performance.now();
    this.#timer = setInterval(() => {
      const now = performance.now();
      for (const kind of /** @type {Act[]} */ (Object.keys(due))) {
        due[kind] += ((now - last) / 1_000) * RATES[kind] * scale;
        for (; due[kind] >= 1; due[kind] -= 1) this.#begin(kind);
      }
      last = now;
    }, TICK_MS);
  }

  /** Stops, and waits for operations in progress. */
  async stop() {
    clearInterval(this.#timer);
    await Promise.all(this.#under);
  }

  async close() {
    clearInterval(this.#timer);
    await Promise.all(this.#pools.map((pool) => pool.destroy()));
  }

  /**
   * Creates a token.
   *
   * @param {number} sidecar
   * @returns whether the sidecar created one
   */
  async tryCreate(sidecar) {
    return (await this.#create('token', sidecar)) === 'done';
  }

  /**
   * Creates, uses and revokes a few credentials, however long that takes, so that every history
   * contains each kind of answer.
   */
  async begin() {
    for (let count = 0; count < FIRST; count++) {
      const sidecar = count % this.#sidecars.length;
      await untilAny(() => this.#create(count === 0 ? 'session' : 'token', sidecar), 'done');
      const credential = this.#live[this.#live.length - 1];
      await untilAny(() => this.#use(credential, sidecar, false), 'accepted', 'refused');
      if (count % 2 === 0) continue;
      const taken = this.#takeLive();
      await untilAny(() => this.#revoke(taken, sidecar), 'done', 'refused');
      await untilAny(() => this.#use(taken, sidecar, false), 'refused', 'accepted');
    }
    await inParallel(Array.from({ length: MORE }), MORE_AT_ONCE, async (_, index) =>
      untilAny(() => this.#create('token', index % this.#sidecars.length), 'done'),
    );
  }

  /**
   * Uses every credential ever acknowledged at every sidecar, each until it is answered.
   *
   * @param {(done: number, total: number) => void} onProgress
   */
  async readBack(onProgress) {
    const all = [...this.#ended, ...this.#live];
    const work = all.flatMap((credential) =>
      this.#sidecars.map(({ index: sidecar }) => ({ credential, sidecar })),
    );
    let done = 0;
    await inParallel(work, READ_BACK_AT_ONCE, async ({ credential, sidecar }) => {
      for (let attempts = 0; attempts < 20; attempts++)
        if ((await this.#use(credential, sidecar, true)) !== 'unknown') break;
      onProgress((done += 1), work.length);
    });
  }

  /** @param {Act} kind */
  #begin(kind) {
    const work = this.#act(kind);
    this.#under.add(work);
    void work.finally(() => this.#under.delete(work));
  }

  /** @param {Act} kind */
  async #act(kind) {
    const sidecar = this.#random.below(this.#sidecars.length);
    if (kind === 'use') {
      const credential = this.#pickToUse();
      if (credential !== undefined) await this.#use(credential, sidecar, false);
    } else if (kind !== 'revoke') await this.#create(kind, sidecar);
    else if (this.#live.length > LEAST_LIVE) {
      // An operation with an unknown outcome is repeated, or abandoned.
      const credential = this.#repeat.pop() ?? this.#takeLive();
      await this.#revoke(credential, sidecar);
    }
  }

  #takeLive() {
    const index = this.#random.below(this.#live.length);
    const [credential] = this.#live.splice(index, 1);
    credential.endedAt = this.#recorder.now();
    this.#ended.push(credential);
    return credential;
  }

  #pickToUse() {
    const part = this.#random.below(100);
    const pool = part < 60 || this.#ended.length === 0 ? this.#live : this.#ended;
    if (pool.length === 0) return undefined;
    if (pool === this.#live || part >= 90) return this.#random.pick(pool);
    const since = this.#recorder.now() - RECENT_MS;
    const first = this.#ended.findIndex(({ endedAt }) => endedAt >= since);
    return first < 0 ? this.#random.pick(pool) : pool[first + this.#random.below(pool.length - first)];
  }

  /**
   * @param {Kind} kind
   * @param {number} sidecar
   */
  async #create(kind, sidecar) {
    const login = loginAt(this.#random.below(1_000));
    const isToken = kind === 'token';
    const form = { [isToken ? 'username' : 'user']: login, password: PASSWORD };
    /** @type {Asked} */
    const operation = { op: 'create', kind, credential: null, id: null, sidecar };
    return this.#ask(operation, isToken ? '/tokens' : '/login', { method: 'POST', form }, (reply) => {
      const name = `${isToken ? 't' : 's'}${(this.#count += 1)}`;
      const id = isToken ? JSON.parse(reply.text).id : null;
      const headers = isToken
        ? { 'Service-Key': JSON.parse(reply.text).access_token }
        : { Cookie: reply.cookie };
      this.#live.push({ name, kind, id, headers, endedAt: Infinity });
      Object.assign(operation, { credential: name, id });
    });
  }

  /**
   * @param {Credential} credential
   * @param {number} sidecar
   * @param {boolean} final
   */
  async #use(credential, sidecar, final) {
    const { name, kind, id, headers } = credential;
    /** @type {Asked} */
    const operation = { op: 'use', kind, credential: name, id, sidecar, ...(final ? { final } : {}) };
    return this.#ask(operation, '/x', { method: 'GET', headers }, ({ text }) => {
      if (kind === 'token') operation.told = text;
    });
  }

  /**
   * @param {Credential} credential
   * @param {number} sidecar
   */
  async #revoke(credential, sidecar) {
    const { name, kind, id, headers } = credential;
    /** @type {Asked} */
    const operation = { op: 'revoke', kind, credential: name, id, sidecar };
    const session = this.#live.find((each) => each.kind === 'session');
    const byId = kind === 'token' && session !== undefined && this.#random.oneIn(3);
    if (byId) operation.by = session.name;
    const meaning = await this.#ask(
      operation,
      kind === 'session' ? '/logout' : byId ? `/tokens/${id}` : '/tokens/self',
      {
        method: kind === 'session' ? 'POST' : 'DELETE',
        headers: byId ? session.headers : headers,
      },
      () => undefined,
    );
    if (meaning === 'unknown' && this.#random.oneIn(2)) this.#repeat.unshift(credential);
    return meaning;
  }

  /**
   * Sends a request, records it, and passes on a successful answer.
   *
   * @param {Asked} operation
   * @param {string} path
   * @param {Request} request
   * @param {(reply: Reply) => void} onDone
   * @returns what the answer means
   */
  async #ask(operation, path, request, onDone) {
    const start = this.#recorder.now();
    const reply = await this.#send(operation.sidecar, path, request);
    const timed = Object.assign(operation, { start, end: this.#recorder.now(), status: reply.status });
    if (reply.error !== undefined) operation.error = reply.error;
    const meaning = meaningOf(timed);
    if (meaning === 'done' || meaning === 'accepted') onDone(reply);
    this.#recorder.add({ type: 'op', ...timed });
    return meaning;
  }

  /**
   * @param {number} sidecar
   * @param {string} path
   * @param {Request} request
   * @returns {Promise<Reply>}
   */
  async #send(sidecar, path, { method, headers, form }) {
    try {
      const reply = await this.#pools[sidecar].request({
        path,
        method,
        headers: {
          ...headers,
          ...(form === undefined ? {} : { 'Content-Type': 'application/x-www-form-urlencoded' }),
        },
        body: form === undefined ? null : new URLSearchParams(form).toString(),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const text = await reply.body.text();
      const cookie = String(reply.headers['set-cookie'] ?? '').split(';', 1)[0];
      return { status: reply.statusCode, text, cookie };
    } catch (error) {
      const { code, name } = /** @type {NodeJS.ErrnoException} */ (error);
      return { status: null, text: '', cookie: '', error: typeof code === 'string' ? code : name };
    }
  }
}

/**
 * @template T
 * @param {T[]} all
 * @param {number} atOnce
 * @param {(each: T, index: number) => Promise<unknown>} work
 */
async function inParallel(all, atOnce, work) {
  let next = 0;
  const one = async () => {
    while (next < all.length) {
      const index = next++;
      await work(all[index], index);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

/**
 * Repeats an operation until it has one of the given outcomes.
 *
 * @param {() => Promise<Meaning>} work
 * @param {Meaning[]} outcomes
 */
async function untilAny(work, ...outcomes) {
  while (!outcomes.includes(await work()));
}
