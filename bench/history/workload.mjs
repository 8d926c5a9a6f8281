// Clients that create, use and revoke tokens and sessions at random, at a steady rate however long
// the answers take.
import {
  codeUses,
  COMMAND_KILLED_MS,
  endOthers,
  limitChange,
  MORE_RATES,
  OVERLAPS,
  rotation,
  runCommand,
} from './changes.mjs';
import { Clients } from './clients.mjs';
import { meaningOf } from './meaning.mjs';
import { inParallel, untilAny } from './repeat.mjs';
import { CODE_USERS, loginAt, PASSWORD, userAt } from './sidecars.mjs';

/** @import { Random } from '../fuzz/random.mjs' */
/** @import { Change, Command } from './changes.mjs' */
/** @import { Reply, Request } from './clients.mjs' */
/** @import { Operation, Recorder } from './record.mjs' */
/** @typedef {keyof typeof RATES | keyof typeof MORE_RATES} Act */
/** @typedef {'token' | 'session'} Kind */
/**
 * @typedef {{ name: string, kind: Kind, id: string | null, user: string, headers: Record<string,
 *   string>, endedAt: number }} Credential
 */
/**
 * @typedef {Omit<Operation, 'type' | 'start' | 'end' | 'status'> & Partial<Pick<Operation, 'start' |
 *   'end'>>} Asked
 */

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
/** Number of credentials that are used right after a change of their user. */
const PROBED = 4;
const MORE_AT_ONCE = 4;

/** Operations per second at a `scale` of 1. */
const RATES = { use: 120, token: 4, session: 1, revoke: 5 };

/** Random clients of some sidecars, and the credentials they know. */
export class Workload {
  #sidecars;
  #random;
  #recorder;
  #clients;
  /** @type {Credential[]} */
  #live = [];
  /** @type {Credential[]} */
  #ended = [];
  /** @type {Credential[]} */
  #repeat = [];
  /** @type {Credential[]} */
  #suspended = [];
  /** @type {Set<Promise<unknown>>} */
  #under = new Set();
  #count = 0;
  #more;
  /** @type {Set<string>} */
  #locked = new Set();
  #isCommandRunning = false;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /**
   * @param {{ sidecars: { index: number, url: string }[], random: Random, recorder: Recorder, more?:
   *   { cli: string, config: string, setsClocks: boolean } | undefined }} what
   *   `more`: makes the changes of `changes.mjs` too, some with this program and configuration
   */
  constructor({ sidecars, random, recorder, more }) {
    this.#sidecars = sidecars;
    this.#random = random;
    this.#recorder = recorder;
    this.#more = more;
    this.#clients = new Clients(sidecars.map(({ url }) => url));
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
    const rates = Object.entries({ ...RATES, ...(this.#more === undefined ? {} : MORE_RATES) });
    const acts = rates.map(([kind, rate]) => ({ kind: /** @type {Act} */ (kind), rate, due: 0 }));
    let last = performance.now();
    this.#timer = setInterval(() => {
      const now = performance.now();
      for (const act of acts)
        for (act.due += ((now - last) / 1_000) * act.rate * scale; act.due >= 1; act.due -= 1)
          this.#begin(act.kind);
      last = now;
    }, TICK_MS);
  }

  /** Stops, waits for operations in progress, and unlocks all accounts. */
  async stop() {
    clearInterval(this.#timer);
    await Promise.all(this.#under);
    for (const user of this.#locked)
      for (let tries = 0; tries < 5 && (await this.#command('unlock', user)) !== 'done';) tries += 1;
  }

  async close() {
    clearInterval(this.#timer);
    await this.#clients.close();
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
    } else if (kind === 'token' || kind === 'session') await this.#create(kind, sidecar);
    else if (kind !== 'revoke') await this.#change(kind, sidecar);
    else if (this.#live.length > LEAST_LIVE) {
      // An operation with an unknown outcome is repeated, or abandoned.
      const credential = this.#repeat.pop() ?? this.#takeLive();
      if ((await this.#revoke(credential, sidecar)) === 'done') await this.#probe([credential]);
    }
  }

  #takeLive() {
    return this.#end(this.#random.pick(this.#live));
  }

  /** @param {Credential} credential */
  #end(credential) {
    this.#live.splice(this.#live.indexOf(credential), 1);
    credential.endedAt = this.#recorder.now();
    this.#ended.push(credential);
    return credential;
  }

  /**
   * @param {keyof typeof MORE_RATES} kind
   * @param {number} sidecar
   */
  async #change(kind, sidecar) {
    const sessions = this.#live.filter((each) => each.kind === 'session');
    const tokens = this.#live.filter((each) => each.kind === 'token');
    if (kind === 'command') {
      if (this.#isCommandRunning) return;
      this.#isCommandRunning = true;
      const [locked] = this.#locked;
      /** @type {Command} */
      const command = locked !== undefined ? 'unlock' : this.#random.pick(['lock', 'lock', 'set-password']);
      const killedAfter = this.#random.oneIn(4) ? 1 + this.#random.below(COMMAND_KILLED_MS) : 0;
      await this.#command(command, locked ?? userAt(this.#random.below(1_000)), killedAfter);
      this.#isCommandRunning = false;
    } else if (kind === 'code') {
      const user = this.#random.pick(CODE_USERS);
      const uses = codeUses(user, this.#sidecars.length, this.#random.below(2));
      await Promise.all(uses.map(async (use) => this.#make(use)));
    } else if (sessions.length === 0 || tokens.length === 0) return;
    else if (kind === 'end-others') {
      const session = this.#random.pick(sessions);
      const others = sessions.filter(({ user }) => user === session.user);
      if ((await this.#make(endOthers(session, sidecar))) === 'done') await this.#probe(others);
    } else if (kind === 'rotate') {
      // Two at once may race for a token: without an overlap, only one of them may succeed.
      const token = this.#random.pick(tokens);
      const times = this.#random.oneIn(3) ? 2 : 1;
      const overlap = this.#random.pick(this.#more?.setsClocks ? OVERLAPS.wrong : OVERLAPS.right);
      await Promise.all(
        Array.from({ length: times }, async () => {
          const own = sessions.filter(({ user }) => user === token.user);
          const by = own.length > 0 && this.#random.oneIn(2) ? this.#random.pick(own) : undefined;
          await this.#rotate(token, rotation(token, by, overlap, this.#random.below(this.#sidecars.length)));
        }),
      );
    } else {
      const recent = this.#suspended.length > 0 && (kind === 'resume' || this.#random.oneIn(4));
      const token = recent ? this.#random.pick(this.#suspended) : this.#random.pick(tokens);
      if (kind === 'suspend') this.#suspended.push(token);
      if (this.#suspended.length > 8) this.#suspended.shift();
      const change = limitChange(kind, token, this.#random.pick(sessions), sidecar);
      if ((await this.#make(change)) === 'done') await this.#probe([token]);
    }
  }

  /**
   * @param {Credential} token
   * @param {Change} change
   */
  async #rotate(token, change) {
    await this.#make(change, ({ text }) => {
      const { id, access_token: secret } = JSON.parse(text);
      const name = `t${(this.#count += 1)}`;
      const { kind, user } = token;
      this.#live.push({ name, kind, id, user, headers: { 'Service-Key': secret }, endedAt: Infinity });
      if (this.#live.includes(token)) this.#end(token);
      void this.#probe([token]);
      const { sidecar } = change.operation;
      const [start, end] = [change.operation.start ?? 0, change.operation.end ?? 0];
      // The replacement is a token of its own.
      this.#recorder.add({ type: 'op', op: 'create', kind, credential: name, id, user, sidecar, start, end, status: 200, predecessor: token.name });
    });
  } // prettier-ignore

  /**
   * Uses credentials at every sidecar right after they were changed, with `--more`.
   *
   * @param {Credential[]} credentials
   */
  async #probe(credentials) {
    if (this.#more === undefined) return;
    const some = credentials.slice(-PROBED);
    await Promise.all(
      some.flatMap((credential) => this.#sidecars.map(({ index }) => this.#use(credential, index, false))),
    );
  }

  /**
   * @param {Change} change
   * @param {(reply: Reply) => void} [onDone]
   */
  async #make({ operation, path, request }, onDone = () => undefined) {
    return this.#ask(operation, path, request, onDone);
  }

  /**
   * @param {Command} command
   * @param {string} user
   * @param {number} killedAfter milliseconds; 0: it is not killed
   * @returns what its result means
   */
  async #command(command, user, killedAfter = 0) {
    if (this.#more === undefined) return 'not_done';
    if (command === 'lock') this.#locked.add(user);
    const start = this.#recorder.now();
    const status = await runCommand(command, user, this.#more, killedAfter);
    const meaning = status === 200 ? 'done' : 'unknown';
    if (command === 'unlock' && meaning === 'done') this.#locked.delete(user);
    const end = this.#recorder.now();
    if (meaning === 'done') void this.#probe(this.#live.filter((each) => each.user === user));
    this.#recorder.add({ type: 'op', op: command, kind: 'token', credential: null, id: null, user, sidecar: 0, start, end, status });
    return meaning;
  } // prettier-ignore

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
    const index = this.#random.below(1_000);
    const [login, user] = [loginAt(index), userAt(index)];
    const isToken = kind === 'token';
    const form = { [isToken ? 'username' : 'user']: login, password: PASSWORD };
    /** @type {Asked} */
    const operation = { op: 'create', kind, credential: null, id: null, user, sidecar };
    return this.#ask(operation, isToken ? '/tokens' : '/login', { method: 'POST', form }, (reply) => {
      const name = `${isToken ? 't' : 's'}${(this.#count += 1)}`;
      const id = isToken ? JSON.parse(reply.text).id : null;
      const headers = isToken
        ? { 'Service-Key': JSON.parse(reply.text).access_token }
        : { Cookie: reply.cookie };
      this.#live.push({ name, kind, id, user, headers, endedAt: Infinity });
      Object.assign(operation, { credential: name, id });
    });
  }

  /**
   * @param {Credential} credential
   * @param {number} sidecar
   * @param {boolean} final
   */
  async #use(credential, sidecar, final) {
    const { name, kind, id, user, headers } = credential;
    /** @type {Asked} */
    const operation = { op: 'use', kind, credential: name, id, user, sidecar, ...(final ? { final } : {}) };
    return this.#ask(operation, '/x', { method: 'GET', headers }, ({ text }) => {
      if (kind === 'token') operation.told = text;
    });
  }

  /**
   * @param {Credential} credential
   * @param {number} sidecar
   */
  async #revoke(credential, sidecar) {
    const { name, kind, id, user, headers } = credential;
    /** @type {Asked} */
    const operation = { op: 'revoke', kind, credential: name, id, user, sidecar };
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
    const reply = await this.#clients.send(operation.sidecar, path, request);
    const timed = Object.assign(operation, { start, end: this.#recorder.now(), status: reply.status });
    if (reply.error !== undefined) operation.error = reply.error;
    const meaning = meaningOf(timed);
    if (meaning === 'done' || meaning === 'accepted') onDone(reply);
    this.#recorder.add({ type: 'op', ...timed });
    return meaning;
  }
}
