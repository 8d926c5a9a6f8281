import { setTimeout as sleep } from 'node:timers/promises';
import { rotationOf } from '../../../src/domain/token.js';
import { WEBHOOK_EVENTS } from '../../../src/domain/webhook.js';
import { MAX_DEAD, MAX_QUEUED } from '../../../src/store/core/events.js';
import type { Store } from '../../../src/store/core/store.js';
import type { Check } from './check.js';
import { createToken, NOW, ownerOf, token, user } from './records.js';

const TTL = 60_000;
const UNLIMITED = { active: null, stored: null };
/** After any real time: everything in the queue is due. */
const LATER = NOW * 2;

function subscribe(store: Store, ...endpoints: readonly string[]): void {
  store.webhooks.subscribe(endpoints.map((endpoint) => ({ endpoint, events: WEBHOOK_EVENTS })));
}

async function leaseOf(store: Store, holder = 'a'): Promise<string> {
  return (await store.webhooks.acquire(holder, TTL)) ?? '';
}

/** Delivers all due events one after another, and returns them in the form `created T1`. */
async function deliver(store: Store, endpoint = 'e', holder = 'a'): Promise<string[]> {
  const lease = await leaseOf(store, holder);
  const sent: string[] = [];
  for (;;) {
    const [due] = (await store.webhooks.listDue(lease, endpoint, LATER, 1)) ?? [];
    if (due === undefined) return sent;
    const { type, subject } = due.event;
    sent.push(`${type.split('.')[1]} ${subject.split(':')[1]}`);
    await store.webhooks.settle(lease, endpoint, due.event, { kind: 'delivered' }, LATER);
  }
}

const statusOf = async (store: Store, endpoint = 'e') =>
  (await store.webhooks.status()).find((each) => each.endpoint === endpoint);

/** Events that wait for delivery. */
export async function webhookStoreContract(check: Check): Promise<void> {
  await check('queues the subscribed events for each endpoint, and nothing without a subscription', async (t, store) => {
    await createToken(store, token('T0'), null, NOW);
    t.same(await store.webhooks.status(), []);
    store.webhooks.subscribe([
      { endpoint: 'one', events: ['token.created'] },
      { endpoint: 'two', events: ['token.revoked', 'token.created'] },
    ]);
    await createToken(store, token('T1'), null, NOW);
    await store.tokens.revoke(['T0', 'T1']);
    t.same(await deliver(store, 'one'), ['created T1']);
    t.same((await deliver(store, 'two')).toSorted(), ['created T1', 'revoked T0', 'revoked T1']);
    store.webhooks.subscribe([]);
    await createToken(store, token('T2'), null, NOW);
    t.same([await deliver(store, 'one'), await deliver(store, 'two')], [[], []]);
  }); // prettier-ignore

  await check('an event contains the token, its owner and its last use, and survives a restart', async (t, first, reopen) => {
    subscribe(first, 'e');
    const record = token('T1', { name: 'a "quoted" name', services: [], expiresAt: NOW + 5 });
    await createToken(first, record, null, NOW);
    await first.usage.recordUses({ tokens: new Map([['T1', { at: NOW, ip: '', userAgent: null }]]), sessions: new Map() });
    await first.tokens.revoke(['T1']);
    const store = await reopen();
    const lease = await leaseOf(store);
    const [due] = (await store.webhooks.listDue(lease, 'e', LATER, 9)) ?? [];
    t.match(due, { attempts: 0, event: { type: 'token.created', subject: 'token:T1', customerId: 'C1' } });
    t.match(due?.event.id, /^msg_[\w-]+$/);
    t.ok(Math.abs((due?.event.at ?? 0) - Date.now()) < 60_000, 'the time of the change');
    t.match(JSON.parse(due?.event.token ?? ''), { id: 'T1', services: [], name: record.name });
    t.ok(await store.webhooks.settle(lease, 'e', due!.event, { kind: 'delivered' }, NOW));
    const [next] = (await store.webhooks.listDue(lease, 'e', LATER, 9)) ?? [];
    t.match(next?.event, { type: 'token.revoked', customerId: 'C1' });
    t.match(JSON.parse(next?.event.use ?? ''), { at: NOW });
    t.not(next?.event.id, due?.event.id);
  }); // prettier-ignore

  await check('reports every way in which a token comes or goes, once', async (t, store) => {
    subscribe(store, 'e');
    const change = (changes: Parameters<Store['directory']['change']>[0]) => store.directory.change(changes, NOW);
    const told = async (name: string, expected: readonly string[]) =>
      t.same((await deliver(store)).toSorted(), expected.toSorted(), name);
    await createToken(store, token('T1'), null, NOW);
    await createToken(store, token('T2'), null, NOW);
    await told('created', ['created T1', 'created T2']);
    t.match(await store.tokens.revoke(['T1', 'none']), { missing: ['none'] });
    await told('a refused revocation', []);
    await store.tokens.revoke(['T1', 'T2']);
    await told('revoked in bulk', ['revoked T1', 'revoked T2']);
    await change({ tokens: [token('L1', { kind: 'legacy_key' })], declared: [token('D1', { declared: true })] });
    await told('imported and declared', ['created L1', 'created D1']);
    await change({ tokens: [token('L1', { kind: 'legacy_key' })], declared: [token('D1', { declared: true, name: 'x', updatedAt: NOW + 1 })] });
    await told('known ones, and a changed one', []);
    await change({ revokeDeclared: ['D1'], removeTokens: ['L1'] });
    await told('removed from the file', ['revoked D1', 'revoked L1']);
    await change({ declared: [token('D1', { declared: true })] });
    await told('revoked ones', []);
    t.match(await change({ users: [user('U9', { customerId: 'none' })], tokens: [token('T5')] }), { reason: 'unknown_customer' });
    await told('a refused change', []);
    await createToken(store, token('T3', { userId: 'U2' }), null, NOW);
    const before = token('T3', { userId: 'U2' });
    const terms = { id: 'T4', digest: 'digest-T4', overlap: 10_000, maxLifetime: null, notAfter: null, sharesRate: false };
    t.equal(await store.tokens.rotate(rotationOf(before, terms, NOW), ownerOf('U2'), UNLIMITED, NOW), 'rotated');
    await told('rotated', ['created T3', 'created T4']);
    const found = (await store.tokens.get('T3'))?.token ?? before;
    const repeated = { ...found, updatedAt: found.updatedAt + 1 };
    t.equal(await store.tokens.update(repeated, found.updatedAt, [], 'token.rotation_repeated'), 'updated');
    t.equal(await store.tokens.update(repeated, found.updatedAt, [], 'token.rotation_repeated'), 'changed_meanwhile');
    await told('a second rotation', ['rotation_repeated T3']);
    t.equal(await change({ removeUsers: ['U2'], removeTokens: ['T3', 'T4'] }), undefined);
    await told('the user was removed', ['revoked T3', 'revoked T4']);
    await createToken(store, token('T6', { expiresAt: Date.now() + 600_000 }), null, NOW);
    t.same(await store.tokens.claimWarnings(['T6']), ['T6']);
    t.same(await store.tokens.claimWarnings(['T6']), []);
    await told('expires soon', ['created T6', 'expiring T6']);
    await change({ users: [user('U1', { locked: true })] });
    await change({ users: [user('U1', { locked: true, name: 'x' })] });
    await change({ users: [user('U7', { locked: true })] });
    await store.webhooks.queueLocked({ userId: 'U1', reason: 'failed_logins', retryAfter: 5 }, 'C1', NOW);
    await store.webhooks.queueLocked(null, null, NOW);
    await told('locked', ['locked U1', 'locked U1']);
  }); // prettier-ignore

  await check('reports each expiry once, however the token is removed', async (t, store) => {
    subscribe(store, 'e');
    const second = Math.floor(Date.now() / 1000) * 1000;
    const past = second - 10_000;
    const began = Date.now();
    await createToken(store, token('before', { expiresAt: past }), null, past - 1);
    const lease = await leaseOf(store);
    // On a busy machine, the tokens take longer to create.
    const enough = 150 + 10 * (Date.now() - began);
    const tell = async () => {
      while ((await store.webhooks.queueExpired(lease)) > 0);
      return (await deliver(store)).filter((each) => !each.startsWith('created')).toSorted();
    };
    t.same(await tell(), [], 'expiries before the first check are not reported');
    const at = Date.now() + enough;
    for (const id of ['A', 'B', 'C', 'rotated', 'declared']) await createToken(store, token(id, { expiresAt: at }), null, second);
    await createToken(store, token('alive'), null, second);
    t.same(await tell(), []);
    while (Date.now() < at + 20) await sleep(20);
    await store.tokens.revoke(['C']);
    t.same(await tell(), ['expired A', 'expired B', 'expired C', 'expired declared', 'expired rotated'], 'a token removed before the check counts as expired');
    t.same(await tell(), []);
    await store.tokens.revoke(['A']);
    await store.maintenance.removeExpired(LATER, Date.now(), 99);
    t.same(await tell(), [], 'later removals are not reported');
    const alive = token('alive');
    const ends = rotationOf(alive, { id: 'R', digest: 'digest-R', overlap: 0, maxLifetime: null, notAfter: null, sharesRate: false }, past);
    t.equal(await store.tokens.rotate(ends, ownerOf('U1'), UNLIMITED, second), 'rotated');
    t.same(await tell(), ['expired alive'], 'a rotation without an overlap');
    const declared = token('D', { declared: true });
    await store.directory.change({ declared: [declared] }, second);
    await store.directory.change({ declared: [{ ...declared, expiresAt: past, updatedAt: NOW + 1 }] }, second);
    t.same(await tell(), ['expired D'], 'an expiry moved into the past');
    t.same(await tell(), []);
  }); // prettier-ignore

  await check('reports many expiries in parts, none twice', async (t, store) => {
    subscribe(store, 'e');
    const lease = await leaseOf(store);
    await store.webhooks.queueExpired(lease);
    const at = Date.now() + 5;
    const many = Array.from({ length: 250 }, (_, i) => token(`T${i}`, { expiresAt: at + (i % 3 === 0 ? 0 : i) }));
    store.webhooks.subscribe([]);
    await store.directory.change({ tokens: many }, NOW);
    subscribe(store, 'e');
    while (Date.now() < at + 260) await sleep(20);
    let calls = 1;
    while ((await store.webhooks.queueExpired(lease)) > 0) calls += 1;
    t.ok(calls > 1, `${calls} calls`);
    t.equal((await statusOf(store))?.queued, 250);
    t.equal(new Set(await deliver(store)).size, 250);
  }); // prettier-ignore

  await check('reports many expiries of one time in parts, although tokens are removed in between', async (t, store) => {
    subscribe(store, 'e');
    const lease = await leaseOf(store);
    await store.webhooks.queueExpired(lease);
    const at = Date.now() + 5;
    const ids = Array.from({ length: 250 }, (_, i) => `${'Tt'[i % 2]}${i}`);
    store.webhooks.subscribe([]);
    await store.directory.change({ tokens: ids.map((id) => token(id, { expiresAt: at })) }, NOW);
    subscribe(store, 'e');
    while (Date.now() < at + 20) await sleep(20);
    t.ok((await store.webhooks.queueExpired(lease)) > 0, 'more are left');
    const first = (await statusOf(store))?.queued ?? 0;
    t.ok(first > 0 && first <= 200, `${first} at once`);
    const sorted = ids.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    // The last one that was reported, the first one that was not, and others.
    await store.tokens.revoke(sorted.slice(first - 2, first + 2));
    await store.tokens.revoke(sorted.slice(-1));
    while ((await store.webhooks.queueExpired(lease)) > 0);
    t.equal((await statusOf(store))?.queued, 250);
    t.equal(new Set(await deliver(store)).size, 250);
  }); // prettier-ignore

  await check('one holder has the lease, and a former holder changes nothing', async (t, store) => {
    subscribe(store, 'e');
    await createToken(store, token('T1'), null, NOW);
    const lease = (await store.webhooks.acquire('a', 150)) ?? '';
    t.equal(await store.webhooks.acquire('a', 150), lease, 'its holder can renew it');
    t.equal(await store.webhooks.acquire('b', TTL), null);
    const [due] = (await store.webhooks.listDue(lease, 'e', LATER, 9)) ?? [];
    await sleep(200);
    const next = (await store.webhooks.acquire('b', TTL)) ?? '';
    t.ok(next !== '' && next !== lease);
    t.equal(await store.webhooks.acquire('a', TTL), null);
    t.equal(await store.webhooks.listDue(lease, 'e', LATER, 9), null);
    t.equal(await store.webhooks.settle(lease, 'e', due!.event, { kind: 'delivered' }, NOW), false);
    t.equal(await store.webhooks.queueExpired(lease), 0);
    await store.webhooks.keep(lease, [], NOW * 3);
    await store.webhooks.release(lease);
    t.equal(await store.webhooks.acquire('a', TTL), null, 'the other holder keeps the lease');
    t.same((await store.webhooks.listDue(next, 'e', LATER, 9))?.map(({ event }) => event.id), [due?.event.id]);
    t.equal(await store.webhooks.settle(next, 'e', due!.event, { kind: 'delivered' }, NOW), true);
    t.equal(await store.webhooks.settle(next, 'e', due!.event, { kind: 'delivered' }, NOW), false, 'settled only once');
    await store.webhooks.release(next);
    const third = await store.webhooks.acquire('a', TTL);
    t.ok(third !== null && third !== lease && third !== next, 'lease ids are never reused');
  }); // prettier-ignore

  await check("only a token's first event is due, and a failed one delays only its own token", async (t, store) => {
    subscribe(store, 'e');
    await createToken(store, token('T1'), null, NOW);
    await store.tokens.revoke(['T1']);
    await createToken(store, token('T2'), null, NOW);
    const lease = await leaseOf(store);
    const due = async (now: number) =>
      ((await store.webhooks.listDue(lease, 'e', now, 9)) ?? []).map(({ event, attempts }) => [event.type, event.subject, attempts]);
    const [first] = (await store.webhooks.listDue(lease, 'e', LATER, 9)) ?? [];
    t.same(await due(LATER), [['token.created', 'token:T1', 0], ['token.created', 'token:T2', 0]]);
    const failed = { kind: 'failed', retryAt: LATER + 10, error: 'the endpoint responded with 500' } as const;
    t.ok(await store.webhooks.settle(lease, 'e', first!.event, failed, NOW));
    t.same(await due(LATER), [['token.created', 'token:T2', 0]]);
    t.same(await due(LATER + 10), [['token.created', 'token:T2', 0], ['token.created', 'token:T1', 1]]);
    t.match(await statusOf(store), { queued: 3, dead: 0, lastError: failed.error, lastFailureAt: NOW, lastSuccessAt: null, disabledAt: null });
    t.ok(await store.webhooks.settle(lease, 'e', first!.event, { kind: 'dead', error: 'given up' }, NOW + 1));
    t.same((await due(LATER + 10)).map(String).toSorted(), ['token.created,token:T2,0', 'token.revoked,token:T1,0']);
    t.match(await statusOf(store), { queued: 2, dead: 1, lastError: 'given up', lastFailureAt: NOW + 1 });
    t.match(await store.webhooks.listDead('e'), [{ event: first!.event, attempts: 2, failedAt: NOW + 1, error: 'given up' }]);
  }); // prettier-ignore

  await check('dead letters can be resent, which also enables a disabled endpoint', async (t, store) => {
    subscribe(store, 'e');
    for (const id of ['T1', 'T2', 'T3']) await createToken(store, token(id), null, NOW);
    const lease = await leaseOf(store);
    const due = (await store.webhooks.listDue(lease, 'e', LATER, 9)) ?? [];
    const [one, two, three] = due.map(({ event }) => event);
    for (const event of [one!, two!]) await store.webhooks.settle(lease, 'e', event, { kind: 'dead', error: 'x' }, NOW);
    await store.webhooks.settle(lease, 'e', three!, { kind: 'failed', retryAt: LATER * 2, error: 'the endpoint responded with 410', disable: true }, NOW);
    t.same(await store.webhooks.listDue(lease, 'e', LATER * 3, 9), [], 'nothing is sent');
    t.equal((await statusOf(store))?.disabledAt, NOW);
    t.equal(await store.webhooks.resend('e', ['none']), 0);
    t.equal((await statusOf(store))?.disabledAt, null);
    t.same((await store.webhooks.listDue(lease, 'e', NOW, 9))?.map(({ event }) => event.id), [three!.id], 'waiting events are due');
    t.equal(await store.webhooks.resend('e', [one!.id]), 1);
    t.same((await store.webhooks.listDead('e')).map(({ event }) => event.id), [two!.id]);
    t.equal(await store.webhooks.resend('e', null), 1);
    t.same(await store.webhooks.listDead('e'), []);
    t.equal((await statusOf(store))?.queued, 3);
    t.same((await deliver(store)).toSorted(), ['created T1', 'created T2', 'created T3']);
    t.equal(await store.webhooks.resend('unknown', null), 0);
    t.equal((await store.webhooks.status()).length, 1);
  }); // prettier-ignore

  await check("removes an endpoint's data a day after it was last known", async (t, store) => {
    subscribe(store, 'e', 'gone');
    await createToken(store, token('T1'), null, NOW);
    const lease = await leaseOf(store);
    await store.webhooks.keep(lease, ['e', 'gone'], NOW);
    await store.webhooks.keep(lease, ['e'], NOW + 80_000_000);
    t.equal((await store.webhooks.status()).length, 2);
    await store.webhooks.keep(lease, ['e'], NOW + 90_000_000);
    t.same((await store.webhooks.status()).map(({ endpoint, queued }) => [endpoint, queued]), [['e', 1]]);
    t.same(await store.webhooks.listDue(lease, 'gone', LATER, 9), []);
    t.same(await deliver(store), ['created T1']);
  }); // prettier-ignore
}

/** Takes seconds on a networked store. */
export async function webhookLimitsContract(check: Check): Promise<void> {
  await check('drops and counts events beyond the limits of queue and dead letters', async (t, store) => {
    subscribe(store, 'e');
    const many = (from: number, count: number) => Array.from({ length: count }, (_, i) => token(`T${from + i}`));
    const flood = many(0, MAX_QUEUED + 2);
    const lease = await leaseOf(store);
    /** The sender takes events up before it sends them. */
    const takenUp = async () => (await store.webhooks.listDue(lease, 'e', LATER, 1), statusOf(store));
    await store.directory.change({ tokens: flood }, NOW);
    const most = 0.8 * MAX_QUEUED;
    t.match(await takenUp(), { queued: most, dropped: MAX_QUEUED + 2 - most, deadDropped: 0 });
    // Their own revocations have more room, and never all of it.
    await store.tokens.revoke(flood.slice(2).map(({ id }) => id));
    t.match(await takenUp(), { queued: 0.95 * MAX_QUEUED });
    await createToken(store, token('other', { userId: 'U3' }), null, NOW);
    await store.tokens.revoke(['other']);
    const queued = 0.95 * MAX_QUEUED + 2;
    t.match(await takenUp(), { queued }, 'the events of another customer');
    t.equal((await store.tokens.get(`T1`))?.token.id, `T1`, 'the change is made');
    const due = (await store.webhooks.listDue(lease, 'e', LATER, MAX_DEAD + 1)) ?? [];
    t.equal(due.length, MAX_DEAD + 1);
    for (const { event } of due) await store.webhooks.settle(lease, 'e', event, { kind: 'dead', error: 'x' }, NOW);
    t.match(await statusOf(store), { queued: queued - MAX_DEAD - 1, dead: MAX_DEAD, deadDropped: 1 });
    t.equal((await store.webhooks.listDead('e'))[0]?.event.id, due[1]?.event.id, 'the oldest was dropped');
  }); // prettier-ignore
}
