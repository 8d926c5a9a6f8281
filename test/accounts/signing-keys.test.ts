import { importJWK, jwtVerify } from 'jose';
import t from 'tap';
import { Sealer } from '../../src/accounts/sealing.js';
import {
  KeyRing,
  type Signer,
  SigningSchedule,
  type SigningSettings,
  signingUnavailable,
} from '../../src/accounts/signing-keys.js';
import type { Subject } from '../../src/domain/credential.js';
import type { SigningKey, SigningKeys } from '../../src/domain/signing-key.js';
import { Assertions } from '../../src/gate/identity.js';
import { RecordUnreadable, StoreUnavailable } from '../../src/store/faults.js';
import { NOW, token, user } from '../store/contract/records.js';

const SETTINGS: SigningSettings = { algorithm: 'EdDSA', rotate_after: 2_592_000_000, ttl: 60_000 };
const DAY = 86_400_000;
const SEALER = new Sealer(Buffer.alloc(32, 1));

/** A store of signing keys with asynchronous answers, as over a network. */
function keyStore() {
  const self = {
    record: undefined as SigningKeys | undefined,
    fault: undefined as Error | undefined,
    reads: 0,
    get: async () => {
      self.reads += 1;
      await new Promise((later) => setImmediate(later));
      if (self.fault !== undefined) throw self.fault;
      return self.record;
    },
    replace: async (next: SigningKeys) => {
      await new Promise((later) => setImmediate(later));
      if (self.fault !== undefined) throw self.fault;
      if ((self.record?.revision ?? 0) !== next.revision - 1) return false;
      self.record = next;
      return true;
    },
  };
  return self;
}

function ring(store: ReturnType<typeof keyStore>, more: Partial<SigningSettings> = {}, sealer = SEALER) {
  const away: Error[] = [];
  return { away, ring: new KeyRing(store, sealer, { ...SETTINGS, ...more }, (error) => away.push(error)) };
}

const subject = (more: object = {}, owner: object = {}): Subject => ({
  credential: 'token',
  user: user('U1', owner),
  token: token('T1', more),
});

const claimsOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());
const headerOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[0] ?? '', 'base64url').toString());

/** Simulates the keys over time, with one of several processes checking them every `every` ms. */
function* live(schedules: readonly SigningSchedule[], every: number, until: number) {
  const history: { at: number; keys: SigningKey[] }[] = [];
  let keys: SigningKey[] = [];
  let number = 0;
  for (let now = NOW; now < NOW + until; now += every) {
    const schedule = schedules[number++ % schedules.length] as SigningSchedule;
    keys = schedule.kept(keys, now);
    const due = schedule.dueKey(keys, now);
    if (due !== undefined)
      keys = [...keys, { kid: `K${number}`, algorithm: schedule.algorithm, sealedKey: '', signsFrom: due }];
    history.push({ at: now, keys });
    yield { now, schedule, keys, history };
  }
}

t.test('until it expires, an assertion verifies with published keys as old as caching allows', async (t) => {
  for (const [name, settings, every, until] of [
    ['30 days', [SETTINGS], 60_000, 40 * DAY],
    ['a day, rarely checked', [{ ...SETTINGS, rotate_after: DAY }], 7 * 3_600_000, 30 * DAY],
    ['4 seconds', [{ ...SETTINGS, rotate_after: 4_000, ttl: 1_000 }], 100, 60_000],
    ['two algorithms at once', [{ ...SETTINGS, rotate_after: DAY }, { ...SETTINGS, rotate_after: DAY, algorithm: 'ES256' }], 60_000, 4 * DAY],
  ] as const) {
    const schedules = settings.map((each) => new SigningSchedule(each));
    const [{ maxAge, refresh } = { maxAge: 0, refresh: 0 }] = schedules;
    const ttl = settings[0]?.ttl ?? 0;
    const used: { kid: string; until: number }[] = [];
    const kids = new Set<string>();
    let [unpublished, early, most] = [0, 0, 0];
    for (const { now, schedule, keys, history } of live(schedules, every, until)) {
      const { kid = '' } = schedule.signer(keys, now) ?? {};
      if (!kids.has(kid)) {
        kids.add(kid);
        // The oldest keys that a verifier may still cache, published by a process that had read
        // them a while before.
        const held = history.findLast(({ at }) => at <= now - maxAge - refresh);
        if (held !== undefined && !held.keys.some((key) => key.kid === kid)) early += 1;
      }
      used.push({ kid, until: now + ttl });
      while ((used[0]?.until ?? Infinity) < now) used.shift();
      unpublished += used.filter((one) => !keys.some((key) => key.kid === one.kid)).length;
      most = Math.max(most, keys.length);
    }
    t.equal(unpublished, 0, `${name}: keys in use are published`);
    t.equal(early, 0, `${name}: published before they sign`);
    t.ok(kids.size > 1, `${name}: ${kids.size} keys signed`);
    t.ok(most <= 3 * settings.length, `${name}: at most ${most} keys at once`);
  }
}); // prettier-ignore

t.test('switches to another algorithm without a gap, then drops the old keys', async (t) => {
  const [before, after] = [new SigningSchedule({ ...SETTINGS, rotate_after: DAY }), new SigningSchedule({ ...SETTINGS, rotate_after: DAY, algorithm: 'ES256' })];
  let keys: SigningKey[] = [{ kid: 'old', algorithm: 'EdDSA', sealedKey: '', signsFrom: NOW }];
  t.equal(before.dueKey(keys, NOW + 1), undefined);
  const due = after.dueKey(keys, NOW + 1) as number;
  t.equal(due, NOW + 1 + 600_000, 'published ten minutes before it signs');
  keys = [...keys, { kid: 'new', algorithm: 'ES256', sealedKey: '', signsFrom: due }];
  t.equal(after.dueKey(keys, NOW + 2), undefined, 'one is enough');
  t.equal(after.signer(keys, due - 1)?.kid, 'old');
  t.equal(after.signer(keys, due)?.kid, 'new');
  t.equal(before.signer(keys, due)?.kid, 'old', 'a process with the old settings continues');
  t.equal(after.kept(keys, NOW + DAY).length, 2);
  t.same(after.kept(keys, NOW + 2 * DAY).map(({ kid }) => kid), ['new']);
  t.equal(after.signer(keys, NOW - DAY)?.kid, 'old', 'a clock that went back');
}); // prettier-ignore

t.test('processes that start or rotate concurrently agree on one key that all can open', async (t) => {
  const store = keyStore();
  const rings = Array.from({ length: 12 }, () => ring(store).ring);
  const signers = await Promise.all(rings.map((each) => each.findSigner(NOW)));
  t.equal(new Set(signers.map(({ kid }) => kid)).size, 1);
  t.equal(store.record?.keys.length, 1);
  t.equal(store.record?.revision, 1);
  const later = Array.from({ length: 12 }, () => ring(store).ring);
  await Promise.all(later.map((each) => each.findSigner(NOW + 31 * DAY)));
  t.equal(store.record?.keys.length, 2, 'one more');
  const published = await Promise.all(later.map((each) => each.published(NOW + 31 * DAY)));
  t.equal(new Set(published.map((each) => JSON.stringify(each))).size, 1);
  t.same(Object.keys(published[0]?.[0] ?? {}).toSorted(), ['alg', 'crv', 'kid', 'kty', 'use', 'x'], 'no private key');
  const es = await ring(keyStore(), { algorithm: 'ES256' }).ring.published(NOW);
  t.same(Object.keys(es[0] ?? {}).toSorted(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y']);
}); // prettier-ignore

t.test('reports unusable keys and does not overwrite them', async (t) => {
  const store = keyStore();
  await ring(store).ring.findSigner(NOW);
  const { record } = store;
  const [key] = record?.keys ?? [];
  const fails = (message: RegExp, more = SEALER) =>
    t.rejects(ring(store, {}, more).ring.findSigner(NOW + 100 * DAY), { name: 'Unavailable', message });
  await fails(/encrypted with another sealing key.*latchkey store forget-signing-keys/, new Sealer(Buffer.alloc(32, 2)));
  store.record = { revision: 1, keys: [{ ...key as SigningKey, kid: 'another' }] };
  await fails(/damaged, or encrypted with another/);
  store.record = { revision: 1, keys: [{ ...key as SigningKey, sealedKey: 'v1.x' }] };
  await fails(/damaged/);
  store.record = record;
  store.fault = new RecordUnreadable('a signing key record is damaged');
  await fails(/a signing key record is damaged/);
  store.fault = undefined;
  t.same(store.record, record, 'nothing was written');
  await t.rejects(ring(keyStore(), {}, new Sealer(null)).ring.findSigner(NOW), { code: 'SEALING_KEY_MISSING' });
}); // prettier-ignore

t.test('while the store is unavailable, known keys sign and unknown ones do not', async (t) => {
  const store = keyStore();
  // Cached for a quarter of that, 1 s; read again after half of it.
  const { ring: known, away } = ring(store, { rotate_after: 4_000 });
  const { kid } = await known.findSigner(NOW);
  t.equal(known.signer(NOW)?.kid, kid);
  const { reads } = store;
  await Promise.all([known.findSigner(NOW), known.published(NOW)]);
  t.equal(store.reads, reads, 'not read every time');
  store.fault = new StoreUnavailable('away');
  while (known.signer(NOW) !== undefined) await new Promise((later) => setTimeout(later, 20));
  t.equal((await known.findSigner(NOW)).kid, kid);
  t.equal(away.length, 1);
  t.equal(known.signer(NOW)?.kid, kid, 'no wait every time');
  await t.rejects(ring(store).ring.findSigner(NOW), StoreUnavailable);
});

t.test('signs an assertion once for a subject, and again when a claim changes', async (t) => {
  const store = keyStore();
  const keys = ring(store).ring;
  const assertions = new Assertions(keys, { issuer: 'https://a', audience: 'b', ttl: 60_000, idleTimeout: 1_800_000, sessionScope: 'global' });
  const of = async (who: Subject, now = NOW) => assertions.of(who, now);
  const [first, again] = await Promise.all([of(subject()), of(subject())]);
  t.equal(first, again, 'concurrent requests share one');
  t.equal(assertions.of(subject(), NOW + 29_999), first, 'a cached one needs no promise');
  const second = await of(subject(), NOW + 30_001);
  t.not(second, first, 'less than half of its lifetime is left');
  t.equal(claimsOf(second).exp - claimsOf(first).exp, 30);
  const [key] = await keys.published(NOW);
  const { payload, protectedHeader } = await jwtVerify(first, await importJWK(key ?? {}), { issuer: 'https://a', audience: 'b', currentDate: new Date(NOW) });
  t.same(protectedHeader, { alg: 'EdDSA', kid: key?.kid, typ: 'JWT' });
  const at = NOW / 1000;
  t.same(payload, { iss: 'https://a', aud: 'b', sub: 'U1', iat: at, exp: at + 60, customer_id: 'C1', login: 'U1@example.com', role: 'user', scope: 'global', credential: 'token', token_id: 'T1' });
  for (const [name, more, owner] of [
    ['role', {}, { role: 'billing' }],
    ['login', {}, { login: 'new' }],
    ['customer', {}, { customerId: 'C2' }],
    ['user', {}, { id: 'U2' }],
    ['scope', { scopes: ['purge_all'] }, {}],
    ['services', { services: ['S1'] }, {}],
    ['expiry', { expiresAt: NOW + 10_000 }, {}],
    ['kind', { kind: 'legacy_key' }, {}],
  ] as const) {
    const digest = `digest-${name}`;
    const other = { ...subject({ ...more, digest }, owner), ...(name === 'kind' ? { credential: 'legacy_key' } : {}) };
    // The second request arrives while the first one is being signed.
    const [was, is] = await Promise.all([of(subject({ digest })), of(other as Subject)]);
    t.notSame(claimsOf(was), claimsOf(is), name);
    t.not(await of(subject({ digest })), is, `${name}: and back`);
  }
  t.same(claimsOf(await of(subject({ services: ['S1', 'S2'] }))).services, ['S1', 'S2']);
}); // prettier-ignore

t.test('no assertion outlives its credential', async (t) => {
  const assertions = new Assertions(ring(keyStore()).ring, { issuer: 'a', audience: 'b', ttl: 60_000, idleTimeout: 1_800_000, sessionScope: 'all' });
  const ends = subject({ expiresAt: NOW + 10_500 });
  const jwt = await assertions.of(ends, NOW);
  t.equal(claimsOf(jwt).exp, NOW / 1000 + 10);
  t.equal(assertions.of(ends, NOW + 9_000), jwt, 'a new one would expire no later');
  const session = (endsAt: number): Subject => ({
    credential: 'session',
    user: user('U1'),
    session: { digest: `D${endsAt}`, id: 'I', userId: 'U1', createdAt: NOW, endsAt, idleEndsAt: endsAt, lastSeenAt: NOW, ip: '', userAgent: null },
  });
  t.match(claimsOf(await assertions.of(session(NOW + 7_000), NOW)), { exp: NOW / 1000 + 7, credential: 'session', scope: 'all' });
  t.notHas(claimsOf(await assertions.of(session(NOW + 7_000), NOW)), { token_id: '' });
  t.equal(claimsOf(await assertions.of(session(NOW + DAY), NOW)).exp, NOW / 1000 + 60);
  const idle = new Assertions(ring(keyStore()).ring, { issuer: 'a', audience: 'b', ttl: 60_000, idleTimeout: 5_000, sessionScope: 'all' });
  t.equal(claimsOf(await idle.of(session(NOW + DAY), NOW)).exp, NOW / 1000 + 5);
}); // prettier-ignore

t.test('a failure to sign is reported every time and not cached', async (t) => {
  const good = await ring(keyStore()).ring.findSigner(NOW);
  let signer: Signer = { ...good, algorithm: 'ES256' };
  const assertions = new Assertions({ signer: () => signer, findSigner: async () => signer }, { issuer: 'a', audience: 'b', ttl: 60_000, idleTimeout: 1, sessionScope: '' });
  await t.rejects(async () => assertions.of(subject(), NOW), signingUnavailable('the assertion could not be signed'));
  await t.rejects(async () => assertions.of(subject(), NOW), signingUnavailable('the assertion could not be signed'));
  signer = good;
  t.equal(headerOf(await assertions.of(subject(), NOW)).kid, good.kid);
}); // prettier-ignore

t.test('a new key signs at once', async (t) => {
  const base = await ring(keyStore()).ring.findSigner(NOW);
  let kid = 'A';
  const keys = { signer: () => ({ ...base, kid }), findSigner: async () => base };
  const assertions = new Assertions(keys, { issuer: 'a', audience: 'b', ttl: 60_000, idleTimeout: 1, sessionScope: '' });
  t.equal(headerOf(await assertions.of(subject(), NOW)).kid, 'A');
  kid = 'B';
  t.equal(headerOf(await assertions.of(subject(), NOW)).kid, 'B');
}); // prettier-ignore

t.test('assertions of many subjects use limited memory', async (t) => {
  const base = await ring(keyStore()).ring.findSigner(NOW);
  let signed = 0;
  const keys = { signer: () => ({ ...base, get algorithm() { signed += 1; return base.algorithm; } }), findSigner: async () => base };
  const assertions = new Assertions(keys, { issuer: 'a', audience: 'b', ttl: 60_000, idleTimeout: 1, sessionScope: '' });
  for (let i = 0; i < 10_050; i++) {
    const one = assertions.of(subject({ id: `T${i}`, digest: `D${i}` }), NOW);
    if (i % 500 === 0) await one;
  }
  const before = signed;
  t.ok(assertions.of(subject({ id: 'T0', digest: 'D0' }), NOW) instanceof Promise, 'the oldest is evicted');
  t.equal(signed, before + 1);
}); // prettier-ignore
