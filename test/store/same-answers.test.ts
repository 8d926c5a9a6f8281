import { join } from 'node:path';
import t from 'tap';
import { rotationOf, type Token } from '../../src/domain/token.js';
import { HOUR_MS } from '../../src/util/time.js';
import type { User } from '../../src/domain/user.js';
import { WEBHOOK_EVENTS } from '../../src/domain/webhook.js';
import type { Changes } from '../../src/store/core/directory-checks.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openPostgresStore } from '../../src/store/postgres.js';
import { openRedisStore } from '../../src/store/redis.js';
import type { Store } from '../../src/store/core/store.js';
import { recordsOf } from '../../src/store/transfer.js';
import type { DueWebhook, WebhookOutcome } from '../../src/store/core/events.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { createRandom, type Random } from '../helpers/random.js';
import { postgresSettings, startPostgres } from '../helpers/postgres.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { BASE, ownerOf, session, token, user } from './contract/records.js';

/** Random lists of operations, and operations of each. `RUNS` and `SEED` test more. */
const RUNS = Number(process.env['RUNS'] ?? 2);
const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
const OPERATIONS = 120;
/** The state is compared after that many operations. */
const COMPARED_EVERY = 20;

const USERS = ['U1', 'U2', 'U3', 'U4'];
/** Ids in the order of one family. */
const FAMILY = [0, 1, 2, 3].map((place) => `FAMILYFAMILY00000${place}0000`);
const TOKENS = [...FAMILY.slice(0, 1), 'T2', 'T3', 'T4', 'L1', 'L2', 'D1', 'D2', 'D3', ...FAMILY.slice(1)];
const SESSIONS = ['s1', 's2', 's3', 's4'];
const MINUTE = 60_000;

type Operation = (store: Store) => unknown;

/** Makes random operations, from what a store holds now. No two tokens get the same digest or expiry. */
class Operations {
  readonly #random: Random;
  readonly #store: Store;
  now = Date.now();
  #made = 0;

  constructor(random: Random, store: Store) {
    this.#random = random;
    this.#store = store;
  }

  async next(): Promise<readonly [name: string, Operation]> {
    this.now += this.#random.below(20);
    const { now } = this;
    const name = this.#random.pick(Object.keys(this.#kinds));
    return [`${name} at ${now}`, (await this.#kinds[name]?.()) ?? nothing];
  }

  readonly #kinds: Readonly<Record<string, () => Promise<Operation>>> = {
    create: async (): Promise<Operation> => {
      const made = this.#token(this.#random.pick(TOKENS.slice(0, 4)));
      if ((await this.#store.tokens.get(made.id)) !== undefined) return nothing;
      const [owner, limits, { now }] = [await this.#owner(made.userId), this.#limits(), this];
      return (store) => store.tokens.create(made, owner, limits, now);
    },
    rotate: async (): Promise<Operation> => {
      const found = await this.#store.tokens.get(this.#random.pick(TOKENS));
      const id = this.#random.pick(FAMILY.slice(1));
      if (found === undefined || (await this.#store.tokens.get(id)) !== undefined) return nothing;
      const before = this.#random.oneIn(8) ? { ...found.token, name: 'stale' } : found.token;
      const terms = { id, digest: `${id}-${this.#made++}`, overlap: 10 * MINUTE, maxLifetime: null, notAfter: null, sharesRate: this.#random.oneIn(3) };
      const rotation = rotationOf(before, terms, this.now);
      const [owner, limits, { now }] = [await this.#owner(before.userId), this.#limits(), this];
      return (store) => store.tokens.rotate(rotation, owner, limits, now);
    },
    update: async (): Promise<Operation> => {
      const found = await this.#store.tokens.get(this.#random.pick(TOKENS));
      const before = found?.token ?? this.#token('gone');
      const after = { ...before, updatedAt: before.updatedAt + 1, ...this.#restrictions() };
      const basedOn = before.updatedAt + (this.#random.oneIn(5) ? 1 : 0);
      const others = (await this.#store.tokens.family(after.id)).slice(1).map(({ token: each }) => ({ token: { ...each, updatedAt: each.updatedAt + 1 }, basedOn: each.updatedAt }));
      const event = this.#random.oneIn(5) ? ('token.rotation_repeated' as const) : undefined;
      return async (store) => [await store.tokens.update(after, basedOn, others, event), (await store.tokens.family(after.id)).map(({ token: { id } }) => id)];
    },
    revoke: async (): Promise<Operation> => {
      const ids = this.#random.oneIn(3) ? this.#some(TOKENS, 6) : [this.#random.pick(TOKENS)];
      return async (store) => {
        const { missing, revoked } = await store.tokens.revoke(ids);
        return [missing.toSorted(), revoked.toSorted()];
      };
    },
    overlaps: async (): Promise<Operation> => {
      const before = this.now + this.#random.pick([0, 20]) * MINUTE;
      return async ({ tokens }) => {
        const taken = await tokens.takeEndedOverlaps(before, 100);
        return [taken.map(({ token: { id } }) => id).toSorted(), await tokens.countInOverlap(before)];
      };
    },
    expiring: async (): Promise<Operation> => {
      const [ids, { now }] = [this.#some(TOKENS, 2), this];
      return async ({ tokens }) => [
        await tokens.claimWarnings(ids),
        (await tokens.listExpiring(now, now + 90_000 * MINUTE)).map(({ id }) => id).toSorted(),
      ];
    },
    change: async (): Promise<Operation> => {
      const [changes, { now }] = [await this.#changes(), this];
      return async ({ directory }) => {
        const refused = await directory.change(changes, now);
        if (refused?.reason !== 'active_tokens') return refused;
        return refused.users.map(({ userId, tokenIds }) => [userId, tokenIds.toSorted()]);
      };
    },
    session: async (): Promise<Operation> => {
      const digest = this.#random.pick(SESSIONS);
      const owner = await this.#owner(this.#random.pick(USERS));
      const made = session(digest, { userId: owner.id, createdAt: this.now, lastSeenAt: this.now + this.#made++, endsAt: this.now + 20 * MINUTE, idleEndsAt: this.now + 10 * MINUTE });
      const [most, issuedAt] = [this.#random.pick([null, 1, 2]), this.now - this.#random.below(100)];
      const login = this.#random.oneIn(3) ? { logouts: ['l1'], issuedAt, begunAt: issuedAt } : undefined;
      return async ({ sessions }) => {
        const ended = await sessions.create(made, owner, most, login);
        return typeof ended === 'string' ? ended : ended.map((each) => each.digest).toSorted();
      };
    },
    endSessions: async (): Promise<Operation> => {
      const [digest, userId, at] = [this.#random.pick(SESSIONS), this.#random.pick(USERS), this.now - this.#random.below(100)];
      if (this.#random.oneIn(3)) return ({ sessions }) => sessions.noteLogouts([{ name: 'l1', issuedAt: at, receivedAt: at }], at + MINUTE);
      return this.#random.oneIn(2) ? ({ sessions }) => sessions.end(digest) : async ({ sessions }) => (await sessions.endOfUser(userId, digest)).map((each) => each.id).toSorted();
    },
    sudo: async (): Promise<Operation> => {
      const [owner, other, { now }] = [await this.#owner(this.#random.pick(USERS)), this.#random.pick(USERS), this];
      return async ({ sessions }) => [await sessions.grantSudo(owner, 'T1', now + 5 * MINUTE), await sessions.hasSudo(other, 'T1', now)];
    },
    attempt: async (): Promise<Operation> => {
      const limits = this.#some(['a', 'b'], 2).map((key) => ({ key, free: this.#random.below(3), longestWait: 4_000, stopAt: this.#random.pick([3, 99]), forgetAfter: this.#random.pick([50, 20_000]), forgetFrom: this.#random.pick(['latest', 'first'] as const) }));
      const remember = { account: 'a', address: this.#random.pick(['1', '2', '3', '4', '5', '6']), until: this.now + 5 * MINUTE + this.#made++ };
      const settlement = { clear: this.#some(['a', 'b'], 4), release: this.#some(['a', 'b'], 3), remember };
      const { now } = this;
      return async ({ loginThrottle: throttle }) => {
        const until = [await throttle.blockedUntil(limits, now), await throttle.reserve(limits, now), await throttle.blockedUntil(limits, now)];
        await throttle.settle(settlement, now);
        return [until, (await throttle.listKnownAddresses('a', now)).toSorted()];
      };
    },
    use: async (): Promise<Operation> => {
      const use = () => ({ at: this.now + this.#random.below(100) - 50, ip: '::1', userAgent: null, idleEndsAt: this.now + 15 * MINUTE });
      const uses = { tokens: new Map(this.#some(TOKENS, 3).map((id) => [id, use()])), sessions: new Map(this.#some(SESSIONS, 2).map((digest) => [digest, use()])) };
      const [userId, step, hour] = [this.#random.pick(USERS), this.#random.below(9), hourOf(this.now) + this.#random.below(4) * HOUR_MS];
      return async ({ usage }) => [await usage.recordUses(uses), await usage.takeOtpStep(userId, step), await usage.countWrite(userId, hour)];
    },
    removeExpired: async (): Promise<Operation> => {
      const { now } = this;
      return async ({ maintenance }) => {
        while ((await maintenance.removeExpired(now, now - 10 * MINUTE, 5)) === 5);
      };
    },
    send: async (): Promise<Operation> => {
      const [nth, { now }] = [this.#random.below(3), this];
      const failed = { kind: 'failed', retryAt: now + this.#random.pick([0, 300]), error: 'no' } as const;
      const outcome = this.#random.pick<WebhookOutcome>([{ kind: 'delivered' }, failed, { ...failed, disable: true }, { kind: 'dead', error: 'gone' }]);
      return async ({ webhooks }) => {
        const lease = (await webhooks.acquire('sender', 10 * MINUTE)) ?? '';
        await webhooks.queueExpired(lease);
        const due = (await webhooks.listDue(lease, 'e', now, 4)) ?? [];
        const event = due[nth]?.event;
        return [due.map(described), event && (await webhooks.settle(lease, 'e', event, outcome, now))];
      };
    },
    resend: async (): Promise<Operation> => async ({ webhooks }) => webhooks.resend('e', null),
  };

  #some(all: readonly string[], oneIn: number): string[] {
    return all.filter(() => this.#random.oneIn(oneIn));
  }

  #limits() {
    return { active: this.#random.pick([null, 1, 2, 3]), stored: this.#random.pick([null, 3, 5]) };
  }

  #restrictions(): Pick<Token, 'restrictions'> {
    return { restrictions: this.#random.oneIn(2) ? { suspended: true, rate: '5/1s', addresses: ['10.0.0.0/8'] } : undefined };
  }

  #token(id: string, more: Partial<Token> = {}): Token {
    const after = this.#random.pick([null, -60_000, -20, 20, 90_000]);
    const expiresAt = after === null ? null : this.now + after * MINUTE + this.#made++;
    const services = this.#random.oneIn(3) ? ['S1'] : [];
    return token(id, { userId: this.#random.pick(USERS), createdAt: this.now, updatedAt: this.now, digest: `${id}-${this.#made++}`, expiresAt, services, serviceId: services[0] ?? null, ...more });
  }

  /** Returns a user as verified, sometimes before a change. */
  async #owner(id: string): Promise<User> {
    const known = (await this.#store.directory.getUser(id)) ?? ownerOf(id);
    return this.#random.oneIn(6) ? { ...known, passwordHash: 'earlier' } : known;
  }

  async #user(id: string): Promise<User> {
    const random = this.#random;
    const known = await this.#store.directory.getUser(id);
    return {
      ...(known ?? user(id, { createdAt: this.now })),
      updatedAt: Math.max(this.now, (known?.updatedAt ?? 0) + 1),
      ...(random.oneIn(3) ? { locked: random.oneIn(2) } : {}),
      ...(random.oneIn(4) ? { customerId: random.pick(['C1', 'C2', 'C3']) } : {}),
      ...(random.oneIn(4) ? { login: random.pick(['a', 'A', 'é', 'É']) } : {}),
      ...(random.oneIn(4) ? { passwordHash: random.pick(['other', null, '$argon2id$v=19$m=2048,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g']) } : {}),
      ...(random.oneIn(9) ? { deletionPending: true } : {}),
    };
  }

  async #changes(): Promise<Changes> {
    const random = this.#random;
    const users = await Promise.all(this.#some(USERS, 4).map(async (id) => this.#user(id)));
    const declared = random.oneIn(3) ? this.#some(['D1', 'D2', 'D3'], 2).map((id) => this.#token(id, { declared: true, digest: random.pick([`${id}-a`, `${id}-b`]), updatedAt: this.now + 1 })) : [];
    const known = await Promise.all(this.#some(USERS, 4).map(async (id) => [id, random.oneIn(9) ? 5 : ((await this.#store.directory.getUser(id))?.updatedAt ?? null)] as const));
    return {
      customers: random.oneIn(4) ? [{ id: random.pick(['C1', 'C2', 'C3']), name: 'named' }] : [],
      services: random.oneIn(4) ? [{ id: random.pick(['S1', 'S2']), customerId: random.pick(['C1', 'C2', 'C3']), name: 'www' }] : [],
      users,
      rehashed: this.#some(USERS, 9),
      tokens: random.oneIn(3) ? this.#some(['L1', 'L2'], 2).map((id) => this.#token(id, { kind: 'legacy_key', digest: id, expiresAt: null })) : [],
      declared,
      revokeDeclared: random.oneIn(5) ? this.#some(TOKENS, 4) : [],
      removeTokens: random.oneIn(5) ? this.#some(TOKENS.filter((id) => !id.startsWith('D')), 4) : [],
      removeUsers: random.oneIn(4) ? this.#some(USERS, 3) : [],
      removeServices: random.oneIn(9) ? ['S1'] : [],
      removeCustomers: random.oneIn(9) ? [random.pick(['C1', 'C2', 'C3'])] : [],
      basedOn: new Map(known),
    };
  }
} // prettier-ignore

const hourOf = (time: number) => Math.floor(time / HOUR_MS) * HOUR_MS;
const nothing: Operation = () => undefined;

/** Describes an event without its id and time, and without the version of the records in it. */
function described({ event, attempts }: Pick<DueWebhook, 'event' | 'attempts'>) {
  const { type, subject, customerId = null, locked, use } = event;
  const found = event.token === undefined ? null : (JSON.parse(event.token) as Token);
  return { type, subject, customerId, locked, attempts, token: found && [found.id, found.userId, found.expiresAt], used: use !== undefined };
} // prettier-ignore

/** Returns everything that a store shows, in the same order for every store. */
async function stateOf({ tokens, directory, webhooks, ...store }: Store) {
  const records: string[] = [];
  for await (const record of recordsOf({ tokens, directory, webhooks, ...store }))
    records.push(canonical(record));
  const statuses = (await webhooks.status()).map(({ oldestAt, ...status }) => ({
    ...status,
    isEmpty: oldestAt === null,
  }));
  return [
    records.toSorted(), statuses, (await webhooks.listDead('e')).map(described),
    (await directory.listPendingDeletions()).toSorted(), (await tokens.listDeclared()).map(({ token: { id } }) => id).toSorted(),
    await tokens.hasLegacyKeys(), await tokens.customerHasAtLeast('C1', 3), await directory.getPasswordCost(),
    (await tokens.filterNewDigests(['L1', 'L2'])).toSorted(), (await tokens.filterRevoked(['id:D1', 'id:D2', 'D1-a'])).toSorted(),
    await Promise.all(['a', 'É', 'U1@example.com'].map(async (login) => (await directory.getUserByLogin(login))?.id)),
  ].map(canonical); // prettier-ignore
}

/** Serializes a value with its members in order of their names; undefined counts as null. */
function canonical(value: unknown): string {
  const isObject = (found: unknown) => typeof found === 'object' && found !== null && !Array.isArray(found);
  return JSON.stringify(value ?? null, (_, found: unknown) =>
    isObject(found) ? Object.fromEntries(Object.entries(found as object).toSorted(([a], [b]) => (a < b ? -1 : 1))) : found,
  );
} // prettier-ignore

t.test('all stores give the same answers and hold the same', async (t) => {
  const [redis, postgres] = [await startRedis(t), await startPostgres(t)];
  for (let run = 0; run < RUNS; run++) {
    const seed = SEED + run;
    const lmdb = openLmdbStore(join(temporaryFolder(t), 'store'));
    const others = {
      Redis: await openRedisStore(redisSettings({ url: redis.url, prefix: `${seed}:` })),
      PostgreSQL: openPostgresStore(postgresSettings({ url: postgres.url })),
    };
    const operations = new Operations(createRandom(seed), lmdb);
    for (const store of [lmdb, ...Object.values(others)]) {
      await store.maintenance.initialize();
      store.webhooks.subscribe([{ endpoint: 'e', events: [...WEBHOOK_EVENTS] }]);
      await store.directory.change(BASE, operations.now);
    }
    const made: string[] = [];
    let differs = '';
    for (let i = 1; i <= OPERATIONS && differs === ''; i++) {
      const [name, operation] = await operations.next();
      const answer = canonical(await operation(lmdb));
      made.push(`${name}: ${answer}`);
      const state = i % COMPARED_EVERY === 0 ? await stateOf(lmdb) : [];
      for (const [kind, store] of Object.entries(others)) {
        const other = canonical(await operation(store));
        if (answer !== other) differs = `the answer on ${kind} is ${other}`;
        const found = state.length === 0 ? [] : await stateOf(store);
        const at = state.findIndex((part, index) => part !== found[index]);
        if (at >= 0) differs = `lmdb holds ${state[at]}, ${kind} ${found[at]}`;
      }
    }
    t.equal(differs, '', `SEED=${seed}: ${differs === '' ? '' : made.slice(-COMPARED_EVERY).join('\n')}`);
    for (const store of [lmdb, ...Object.values(others)]) await store.maintenance.close();
  }
});
