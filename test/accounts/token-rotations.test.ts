import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import t from 'tap';
import { changeToken } from '../../src/accounts/token-changes.js';
import { tokenRevokedEvent } from '../../src/accounts/audit-events.js';
import {
  reportEndedOverlaps,
  type RotationCaller,
  TokenRotations,
} from '../../src/accounts/token-rotations.js';
import type { AuditEvent } from '../../src/domain/audit.js';
import { digestOf } from '../../src/domain/secret.js';
import { isExpired, newTokenId, type Token } from '../../src/domain/token.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { OutcomeUnknown } from '../../src/store/faults.js';
import type { Store } from '../../src/store/core/store.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { options, told } from '../helpers/property.js';
import { BASE, NOW, ownerOf, token, user } from '../store/contract/records.js';

const SECOND = 1_000;
const SETTINGS = {
  max_per_user: null, max_stored_per_user: 1_000, max_stored_per_customer: 10_000, max_lifetime: null,
  rotation: { overlap: 100 * SECOND, max_overlap: 1_000 * SECOND, self: true },
}; // prettier-ignore
const LIMITS = { rate: '5/1m', addresses: ['10.0.0.0/8', '::1'] };
const OPERATOR: RotationCaller = {
  customerId: null,
  notAfter: null,
  tokenId: null,
  refuse: () => undefined,
};

async function begin(settings: object = {}) {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  await store.directory.change(BASE, NOW);
  t.teardown(() => store.maintenance.close());
  return { store, rotations: new TokenRotations(store, { ...SETTINGS, ...settings }) };
}

const add = (store: Store, created: Token) =>
  store.tokens.create(created, ownerOf(created.userId), { active: null, stored: null }, NOW);

type Step =
  | { do: 'create'; lifetime: number | null }
  | { do: 'rotate'; at: number; overlap: number | undefined }
  | { do: 'revoke' | 'remove'; at: number }
  | { do: 'suspend'; at: number; suspended: boolean }
  | { do: 'wait'; seconds: number };

const seconds = fc.integer({ min: 0, max: 400 });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('create' as const), lifetime: fc.option(fc.integer({ min: 1, max: 600 })) }),
  fc.record({
    do: fc.constant('rotate' as const),
    at: fc.nat(20),
    overlap: fc.option(seconds, { nil: undefined }),
  }),
  fc.record({ do: fc.constant('rotate' as const), at: fc.nat(20), overlap: fc.constant(undefined) }),
  fc.record({ do: fc.constantFrom('revoke' as const, 'remove' as const), at: fc.nat(20) }),
  fc.record({ do: fc.constant('suspend' as const), at: fc.nat(20), suspended: fc.boolean() }),
  fc.record({ do: fc.constant('wait' as const), seconds }),
);

/** The expected properties of a token, however it was made. */
interface Expected {
  readonly id: string;
  readonly digest: string;
  readonly name: string;
  readonly predecessorId: string | undefined;
  /** The lifetime in seconds that it was made with; null for no expiry. */
  readonly lifetime: number | null;
  /** It, and the tokens that it came from. */
  readonly line: readonly string[];
  endsAt: number;
  revoked: boolean;
  rotated: boolean;
  suspended: boolean;
  /** Expired, and its record was removed. */
  gone: boolean;
}

const eventsOf = ({ auditEvents }: { auditEvents?: readonly AuditEvent[] }) =>
  auditEvents?.map(({ event }) => event);

t.test('after creating, rotating, revoking and expiring in any order, exactly the right tokens are valid', async (t) => {
  const { store, rotations } = await begin();
  let rotated = 0;
  let reached = 0;
  const check = async (steps: readonly Step[]) => {
    let now = NOW;
    const all: Expected[] = [];
    const expect = (made: Token, lifetime: number | null, ancestors: readonly string[] = []) =>
      all.push({ id: made.id, digest: made.digest, name: made.name, predecessorId: made.predecessorId, lifetime, line: [...ancestors, made.id], endsAt: made.expiresAt ?? Infinity, revoked: false, rotated: false, suspended: false, gone: false });
    for (const each of steps) {
      const chosen = 'at' in each && all.length > 0 ? all[each.at % all.length] : undefined;
      if (each.do === 'wait') now += each.seconds * SECOND;
      if (each.do === 'create') {
        const id = newTokenId();
        const made = token(id, { name: id, services: ['S1'], scopes: ['purge_all'], restrictions: LIMITS, createdAt: now, expiresAt: each.lifetime === null ? null : now + each.lifetime * SECOND });
        await add(store, made);
        expect(made, each.lifetime);
      }
      if (each.do === 'revoke' && chosen !== undefined) {
        const family = all.filter((one) => one.line.includes(chosen.id) && !one.revoked && !one.gone);
        const { missing, revoked } = await store.tokens.revoke([chosen.id]);
        if ((missing.length > 0) !== (family.length === 0)) throw new Error('a revocation finds what is there');
        if (!isDeepStrictEqual(revoked.toSorted(), family.map(({ id }) => id).toSorted())) throw new Error('it reaches exactly what came from a token');
        reached += revoked.filter((id) => id !== chosen.id).length;
        for (const one of family) one.revoked = true;
      }
      if (each.do === 'suspend' && chosen !== undefined) {
        const { suspended } = each;
        const changed = await changeToken(store.tokens, chosen.id, { suspended }, now, []);
        if ((changed === undefined) !== (chosen.revoked || chosen.gone)) throw new Error('a suspension finds what is there');
        if (changed !== undefined) for (const one of all) if (one.line.includes(chosen.id)) one.suspended = suspended;
      }
      if (each.do === 'remove' && chosen !== undefined && !chosen.revoked && now >= chosen.endsAt) {
        await store.directory.change({ removeTokens: [chosen.id] }, now);
        chosen.gone = true;
      }
      if (each.do === 'rotate' && chosen !== undefined) {
        const overlap = each.overlap === undefined ? undefined : String(each.overlap);
        const made = await rotations.rotate(chosen.id, { overlap }, OPERATOR, now);
        const works = !chosen.revoked && !chosen.gone && now < chosen.endsAt && !chosen.rotated;
        if (chosen.rotated && !chosen.revoked && !chosen.gone && !isDeepStrictEqual(eventsOf(made), ['token.rotation_repeated'])) throw new Error('a second rotation is reported');
        if ('refusal' in made !== !works) throw new Error(`rotating ${works ? 'a good' : 'an ended'} token: ${JSON.stringify(made)}`);
        if ('refusal' in made) continue;
        rotated += 1;
        const { replacement } = made.rotation;
        if (replacement.digest !== digestOf(made.secret)) throw new Error('the secret is not the one that works');
        chosen.endsAt = Math.min(chosen.endsAt, now + (each.overlap ?? 100) * SECOND);
        chosen.rotated = true;
        expect(replacement, chosen.lifetime, chosen.line);
        all.at(-1)!.suspended = chosen.suspended;
        if (replacement.predecessorId !== chosen.id || replacement.name !== chosen.name) throw new Error('not the successor of what was rotated');
        if (replacement.expiresAt !== (chosen.lifetime === null ? null : now + chosen.lifetime * SECOND)) throw new Error('another lifetime than the first one');
      }
      for (const one of all) {
        const found = (await store.tokens.find(one.digest))?.token;
        const works = found !== undefined && !isExpired(found, now);
        if (works !== (!one.revoked && !one.gone && now < one.endsAt)) throw new Error(`${one.id} ${works ? 'works' : 'is refused'}`);
        if (found !== undefined && (found.scopes.join() !== 'purge_all' || found.services.join() !== 'S1' || !isDeepStrictEqual(found.restrictions, one.suspended ? { suspended: true, ...LIMITS } : LIMITS))) throw new Error('wider than it was');
        if (found !== undefined && (found.rotated !== undefined && now < (found.expiresAt ?? 0)) !== (one.rotated && works)) throw new Error('the overlap is not told');
      }
    }
    const [expected, counted] = [all.filter((one) => one.rotated && !one.revoked && !one.gone && now < one.endsAt).length, await store.tokens.countInOverlap(now)];
    await store.directory.change({ removeTokens: all.map(({ id }) => id) }, now);
    if (counted !== expected) throw new Error(`${counted} in their overlap, not ${expected}`);
  };
  const details = await fc.check(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), check), options(100));
  t.notOk(details.failed, told(details));
  t.ok(rotated > 20 && reached > 0, `${rotated} rotations, ${reached} revoked through what they came from`);
}); // prettier-ignore

t.test('of concurrent rotations one gives a token, and the others are reported', async (t) => {
  const { store, rotations } = await begin();
  await add(store, token('T1'));
  store.webhooks.subscribe([{ endpoint: 'e', events: ['token.rotation_repeated'] }]);
  const made = await Promise.all([1, 2, 3].map(() => rotations.rotate('T1', { overlap: undefined }, OPERATOR, NOW)));
  t.strictSame(made.map((each) => String(eventsOf(each)?.at(-1))).toSorted((a, b) => a.localeCompare(b)), ['token.rotated', 'token.rotation_repeated', 'token.rotation_repeated']);
  t.equal((await store.tokens.listOfUser('U1')).length, 2);
  t.match((await store.tokens.get('T1'))?.token.rotated, { repeated: true });
  t.match(await store.webhooks.status(), [{ endpoint: 'e', queued: 1 }], 'one webhook, however often it is repeated');
}); // prettier-ignore

t.test('of a suspension and a rotation at the same time, neither is lost', async (t) => {
  const { store, rotations } = await begin();
  for (let i = 0; i < 20; i++) {
    const id = newTokenId();
    await add(store, token(id));
    await Promise.all([rotations.rotate(id, { overlap: undefined }, OPERATOR, NOW), changeToken(store.tokens, id, { suspended: true }, NOW, [])]);
    const family = await store.tokens.family(id);
    t.equal(family.length, 2);
    t.ok(family.every((each) => each.token.restrictions?.suspended));
  }
}); // prettier-ignore

t.test('where tokens cannot rotate themselves, others can rotate them', async (t) => {
  const { store, rotations } = await begin({ rotation: { ...SETTINGS.rotation, self: false } });
  await add(store, token('T1'));
  const rotate = async (tokenId: string | null) => rotations.rotate('T1', { overlap: undefined }, { ...OPERATOR, tokenId }, NOW);
  t.match(await rotate('T1'), { refusal: 'wrong_credential_kind', detail: /tokens\.rotation\.self/ });
  t.match(await rotate(null), { rotation: { old: { id: 'T1' } } });
}); // prettier-ignore

t.test('refuses to rotate tokens that their holder could not use', async (t) => {
  const { store, rotations } = await begin();
  await store.directory.change({ declared: [token('D1', { declared: true })], tokens: [token('L1', { kind: 'legacy_key' })] }, NOW);
  for (const [id, more] of [['E1', { expiresAt: NOW }], ['X1', { userId: 'U2' }], ['R1', {}]] as const) await add(store, token(id, more));
  await store.tokens.revoke(['R1']);
  await store.directory.change({ users: [user('U2', { locked: true })] }, NOW);
  const rotate = async (id: string, caller = OPERATOR) => rotations.rotate(id, { overlap: undefined }, caller, NOW);
  for (const [id, detail] of [
    ['D1', /declared in the directory file/], ['L1', /A legacy key cannot be rotated/], ['E1', /The token expired at 2027-/], ['X1', /owner of the token is locked/],
  ] as const) {
    t.match(await rotate(id), { refusal: 'grant', status: 422, detail }, id);
    t.ok(await store.tokens.find(`digest-${id}`), 'unchanged');
  }
  for (const id of ['R1', 'none', '../x']) t.match(await rotate(id), { refusal: 'not_found' });
  await add(store, token('T1'));
  t.match(await rotate('T1', { ...OPERATOR, customerId: 'C2' }), { refusal: 'not_found' }, 'of another customer');
  t.match(await rotate('T1', { ...OPERATOR, refuse: () => ({ refusal: 'active_tokens' }) }), { refusal: 'active_tokens' });
  t.equal(await store.tokens.countInOverlap(NOW), 0);
}); // prettier-ignore

t.test('the replacement of a suspended token is suspended', async (t) => {
  const { store, rotations } = await begin();
  await add(store, token('T1', { restrictions: { suspended: true, rate: '5/1m' } }));
  const made = await rotations.rotate('T1', { overlap: undefined }, OPERATOR, NOW);
  t.match(made, { auditEvents: [{ event: 'token.created', target: { suspended: 'true', rate: '5/1m', predecessor_id: 'T1' } }, {}] });
  for (const { token: each } of await store.tokens.listOfUser('U1')) t.strictSame(each.restrictions, { suspended: true, rate: '5/1m' }, each.id);
}); // prettier-ignore

t.test('a token in its overlap can be suspended and resumed, and ends as scheduled', async (t) => {
  const { store, rotations } = await begin();
  await add(store, token('T1'));
  await rotations.rotate('T1', { overlap: '10' }, OPERATOR, NOW);
  const rotated = (await store.tokens.get('T1'))?.token;
  for (const suspended of [true, false]) {
    const changed = await changeToken(store.tokens, 'T1', { suspended }, NOW, []);
    t.match(changed, { token: { expiresAt: NOW + 10 * SECOND, rotated: rotated?.rotated, restrictions: suspended ? { suspended } : undefined } });
    t.strictSame((await store.tokens.find('digest-T1'))?.token.restrictions, suspended ? { suspended } : undefined);
  }
  t.equal(await store.tokens.countInOverlap(NOW), 1);
}); // prettier-ignore

t.test('a declared token can only be changed in its file', async (t) => {
  const { store } = await begin();
  await store.directory.change({ declared: [token('D1', { declared: true })] }, NOW);
  for (const change of [{ suspended: true }, { rate: '5/1m' }, {}])
    t.match(await changeToken(store.tokens, 'D1', change, NOW, []), { refusal: 'grant', status: 422, detail: /declared in the directory file/ });
  t.strictSame((await store.tokens.get('D1'))?.token, token('D1', { declared: true }), 'unchanged');
}); // prettier-ignore

t.test('a replacement lasts no longer than a limit or its caller allows', async (t) => {
  const { store, rotations } = await begin({ max_lifetime: 50 * SECOND });
  await add(store, token('T1'));
  await add(store, token('T2', { expiresAt: NOW + 30 * SECOND }));
  const expiryOf = async (id: string, notAfter: number | null = null) => {
    const made = await rotations.rotate(id, { overlap: '5' }, { ...OPERATOR, notAfter }, NOW);
    return 'refusal' in made ? made : (made.rotation.replacement.expiresAt ?? 0) - NOW;
  };
  t.equal(await expiryOf('T1'), 50 * SECOND);
  t.equal(await expiryOf('T2'), 30 * SECOND);
  await add(store, token('T3'));
  t.equal(await expiryOf('T3', NOW + 7 * SECOND), 7 * SECOND);
}); // prettier-ignore

t.test('a token that was rotated without an overlap is expired by every clock', async (t) => {
  const { store, rotations } = await begin();
  await add(store, token('T1'));
  await add(store, token('T2'));
  await rotations.rotate('T1', { overlap: '0' }, OPERATOR, NOW);
  await rotations.rotate('T2', { overlap: '1' }, OPERATOR, NOW);
  const isExpiredAt = async (id: string, at: number) => isExpired((await store.tokens.get(id))!.token, at);
  for (const at of [0, NOW - 3_600 * SECOND, NOW, NOW + 3_600 * SECOND]) t.ok(await isExpiredAt('T1', at));
  t.notOk(await isExpiredAt('T2', NOW - SECOND), 'an overlap ends by the clock');
}); // prettier-ignore

t.test('a replacement expires in a year of four digits', async (t) => {
  const { store, rotations } = await begin();
  await add(store, token('T1', { expiresAt: Date.parse('9999-12-31T23:59:59Z') }));
  const later = NOW + 100 * SECOND;
  t.match(await rotations.rotate('T1', { overlap: undefined }, OPERATOR, later), {
    rotation: { replacement: { expiresAt: Date.parse('9999-12-31T23:59:59Z') } },
  });
});

t.test('a lost answer is audited as unknown, and another attempt is refused', async (t) => {
  const { store } = await begin();
  await add(store, token('T1'));
  let lost = true;
  const rotate: Store['tokens']['rotate'] = async (...args) => {
    const result = await store.tokens.rotate(...args);
    if (lost) throw new OutcomeUnknown('no answer');
    return result;
  };
  const rotations = new TokenRotations({ ...store, tokens: { ...store.tokens, rotate } }, SETTINGS);
  await t.rejects(rotations.rotate('T1', { overlap: undefined }, OPERATOR, NOW), {
    message: 'the change is not confirmed; it may have been applied (no answer)',
    refusal: { refusal: 'outcome_unknown', auditEvents: [{ event: 'token.created', outcome: 'unknown' }, { event: 'token.rotated', outcome: 'unknown' }] },
  });
  lost = false;
  const second = await rotations.rotate('T1', { overlap: undefined }, OPERATOR, NOW);
  t.match(second, { status: 422, detail: /^The token was already replaced by \w+\. If you did not do that, it leaked/ });
}); // prettier-ignore

t.test('reports the end of an overlap with the last use of the old token', async (t) => {
  const { store, rotations } = await begin();
  for (const id of ['T1', 'T2', 'T3']) await add(store, token(id));
  const made = [];
  for (const id of ['T1', 'T2', 'T3']) made.push(await rotations.rotate(id, { overlap: '10' }, OPERATOR, NOW));
  const successors = made.map((each) => ('refusal' in each ? '' : each.rotation.replacement.id));
  const use = { at: NOW + 1, ip: '192.0.2.7', userAgent: 'old\u202e job/1 lk12345678901234567890123456789012345678' };
  await store.usage.recordUses({ tokens: new Map([['T1', use], ['T3', use]]), sessions: new Map() });
  const told: AuditEvent[] = [];
  const report = async (after: number) => reportEndedOverlaps(store.tokens, 2 * SECOND, NOW + after * SECOND, (event) => told.push(event));
  const revoked = await store.tokens.get('T3');
  await store.tokens.revoke(['T3']);
  await report(12);
  t.same(told, [], 'a last use may not have been written yet');
  await report(13);
  await report(999);
  t.strictSame(told.map(({ event, outcome, reason, target }) => [event, outcome, reason, target]), [
    ['token.expired', 'success', 'rotated', {
      token_id: 'T1', user_id: 'U1', successor_id: successors[0], last_used_at: '2027-01-15T08:00:00+00:00', last_ip: '192.0.2.7',
      last_user_agent: told[0]?.target?.['last_user_agent'], expires_at: '2027-01-15T08:00:10+00:00',
    }],
    ['token.expired', 'success', 'rotated', {
      token_id: 'T2', user_id: 'U1', successor_id: successors[1], last_used_at: null, last_ip: null, last_user_agent: null, expires_at: '2027-01-15T08:00:10+00:00',
    }],
  ]);
  const agent = String(told[0]?.target?.['last_user_agent']);
  t.match(agent, /^old.+ job\/1 /);
  t.notMatch(agent, /\u202e|lk1234567/, 'client input is escaped, and secrets are masked');
  t.match(tokenRevokedEvent('T3', revoked).target, { token_id: 'T3', successor_id: successors[2], last_ip: '192.0.2.7' }, 'an earlier end is reported too');
  t.strictSame(tokenRevokedEvent('T9', { token: token('T9'), use }).target, { token_id: 'T9' }, 'nothing for a token that was not rotated');
}); // prettier-ignore
