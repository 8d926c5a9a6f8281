// Tests the checker of histories with correct histories and with ones that have a planted
// violation.
import * as fc from 'fast-check';
import t from 'tap';
import { property } from '../helpers/property.js';
import { forEachRow } from '../helpers/table.js';

interface Entry {
  readonly type: string;
  readonly [name: string]: unknown;
}
interface Report {
  readonly violations: { readonly rule: string; readonly credential?: string; readonly operations: Entry[] }[];
  readonly lost: number;
  readonly failovers: number;
  readonly operations: Record<string, number>;
  readonly availability: { readonly all: number | null; readonly whileGone: number | null; readonly gap: number | null };
} // prettier-ignore
interface Checker {
  readonly check: (history: readonly Entry[]) => Report;
  readonly BOUND_MS: number;
}
interface Reporter {
  readonly describe: (report: Report, history: readonly Entry[]) => string;
  readonly boundsHold: (report: Report, run: object) => boolean;
}

const load = async <Exports>(file: string) =>
  (await import(new URL(`../../bench/history/${file}`, import.meta.url).href)) as Exports;
const { check, BOUND_MS } = await load<Checker>('checker.mjs');
const { describe, boundsHold } = await load<Reporter>('report.mjs');

const RUN: Entry = { type: 'run', store: 'sentinel', seed: 1, acknowledge: 0, lossless: true };
const LOSSY: Entry = { ...RUN, lossless: false };
const rulesOf = (history: readonly Entry[]) => check(history).violations.map(({ rule }) => rule);

/** An operation on one token. @param status the status of its response; null for none */
function op(name: string, start: number, end: number, status: number | null, more: object = {}): Entry {
  return { type: 'op', op: name, credential: 't1', id: 'T1', sidecar: 0, start, end, status, ...more };
}
const created = op('create', 0, 10, 200);
const revoked = op('revoke', 1_000, 1_010, 204);

t.test('accepts correct histories and finds each planted violation', async (t) => {
  forEachRow<readonly [string, readonly Entry[], readonly string[]]>(
    [
      ['used and revoked', [created, op('use', 20, 30, 200), revoked, op('use', 1_020, 1_030, 401)], []],
      ['no store, no response', [created, op('use', 20, 30, 503), op('use', 20, 3_020, null), op('use', 40, 50, 504)], []],
      ['accepted at the bound', [created, revoked, op('use', 1_010 + BOUND_MS, 9_000, 200)], []],
      ['accepted after the bound', [created, revoked, op('use', 1_011 + BOUND_MS, 9_000, 200)], ['accepted']],
      ['refused in between', [created, revoked, op('use', 1_020, 1_030, 401), op('use', 90_000, 90_010, 200)], ['accepted']],
      ['refused during the revocation', [created, op('use', 1_001, 1_002, 401), revoked], []],
      ['refused before the revocation', [created, op('use', 900, 999, 401), revoked], ['lost']],
      ['an unconfirmed revocation that did not happen', [created, op('revoke', 1_000, 1_500, 503), op('use', 9_000, 9_010, 200)], []],
      ['an unconfirmed revocation that happened', [created, op('revoke', 1_000, 1_500, null), op('use', 9_000, 9_010, 401)], []],
      ['one that takes effect late', [created, op('revoke', 1_000, 1_500, 503), op('use', 8_000, 8_010, 200), op('use', 9_000, 9_010, 401)], []],
      ['one that is seen and does not hold', [created, op('revoke', 1_000, 1_500, 503), op('use', 2_000, 2_010, 401), op('use', 9_000, 9_010, 200)], ['came_back']],
      ['one seen by a second revocation', [created, op('revoke', 1_000, 1_500, 503), op('revoke', 2_000, 2_010, 401), op('use', 9_000, 9_010, 200)], ['came_back']],
      ['by an actor that was revoked itself', [created, op('revoke', 1_000, 1_500, 401, { by: 's1' }), op('use', 9_000, 9_010, 200)], []],
      ['lost', [created, op('use', 20, 30, 401)], ['lost']],
      ['refused and accepted again', [created, op('use', 20, 30, 401), op('use', 9_000, 9_010, 200)], ['refused']],
      ['accepted as another user', [created, op('use', 20, 30, 200, { told: 'T2' })], ['mistaken']],
      ['accepted as itself', [created, op('use', 20, 30, 200, { told: 'T1' })], []],
      ['an invalid response', [created, op('use', 20, 30, 500)], ['unexpected']],
      ['a creation without a response', [op('create', 0, 3_000, null, { credential: null, id: null })], []],
    ],
    ([name, history, rules]) => t.same(rulesOf([RUN, ...history]), rules, name),
  );
}); // prettier-ignore

/** A use of a one-time password. @param status the status of its response; null for none */
function code(start: number, status: number | null, more: object = {}): Entry {
  return op('code', start, start + 10, status, { kind: 'session', credential: 'codes0.7', id: null, user: 'codes0', ...more });
} // prettier-ignore

t.test('a store that may lose acknowledged writes', async (t) => {
  const failover = { type: 'event', event: 'failover', start: 20, end: 30 };
  const twice = [code(0, 200), failover, code(40, 200)];
  t.same([RUN, LOSSY].map((run) => rulesOf([run, ...twice])), [['reused'], []]);
  t.same(rulesOf([LOSSY, code(0, 200), code(5, 200), failover]), ['reused'], 'the failover came later');
  const lost = check([LOSSY, created, op('use', 20, 30, 401), op('use', 9_000, 9_010, 401)]);
  t.same([lost.violations.length, lost.lost], [0, 1]);
  const again = check([LOSSY, created, op('use', 20, 30, 401), op('use', 9_000, 9_010, 200)]);
  t.same([again.violations.map(({ rule }) => rule), again.lost], [['refused'], 0], 'it was not lost');
  const there: Entry = { type: 'event', event: 'failover', to: 'B', start: 15, end: 15 };
  const goneFor = [created, op('use', 20, 30, 401), op('use', 9_000, 9_010, 200)];
  const back: Entry = { ...there, to: 'A', start: 500, end: 500 };
  t.same([rulesOf([LOSSY, there, back, ...goneFor]), rulesOf([LOSSY, there, ...goneFor])], [[], ['refused']], 'a failover and another one back');
  t.same(rulesOf([RUN, there, back, ...goneFor]), ['refused'], 'a store that may lose nothing');
  t.same(rulesOf([LOSSY, created, revoked, op('use', 9_000, 9_010, 200)]), ['accepted'], 'a revocation must not be lost');
}); // prettier-ignore

t.test('suspensions, rotations, and changes of an account', async (t) => {
  const lmdb = { ...RUN, store: 'lmdb' };
  const use = (start: number, status: number, more: object = {}) => op('use', start, start + 10, status, more);
  const by = { by: 's1' };
  const account = (name: string, start: number, status: number | null = 200, more: object = {}) =>
    op(name, start, start + 10, status, { credential: null, id: null, user: 'u1', ...more });
  const made = { ...created, user: 'u1' };
  const session = { credential: 's1', id: null, kind: 'session', user: 'u1' };
  const begun = op('create', 0, 10, 200, session);
  const suspended = op('suspend', 1_000, 1_010, 200, by);
  const rotated = op('rotate', 1_000, 1_010, 200, { overlap: 0, ...by });
  const next = { credential: 't2', id: 'T2' };
  const replacement = op('create', 1_000, 1_010, 200, { ...next, predecessor: 't1' });
  forEachRow<readonly [string, readonly Entry[], readonly string[]]>(
    [
      ['suspended and resumed', [created, suspended, use(1_020, 401), op('resume', 2_000, 2_010, 200, by), use(2_020, 200)], []],
      ['accepted while suspended', [created, suspended, use(1_020, 200)], ['let_in']],
      ['resumed, perhaps', [created, suspended, op('resume', 2_000, 2_010, 503, by), use(2_020, 200), use(2_040, 401)], []],
      ['refused after it was resumed', [created, suspended, op('resume', 2_000, 2_010, 200, by), use(2_020, 401)], ['lost']],
      ['a suspension by a session that has ended', [created, op('suspend', 1_000, 1_010, 401, by), use(1_020, 200)], []],
      ['rotated without an overlap', [created, rotated, use(1_020, 401)], []],
      ['accepted after that', [created, rotated, use(1_020, 200)], ['accepted']],
      ['rotated twice', [created, rotated, op('rotate', 1_001, 1_012, 200, { overlap: 0 })], ['twice']],
      ['a one-time password that is accepted once', [code(0, 200), code(5, 400), code(20, null)], []],
      ['one that is accepted twice', [code(0, 200), code(5, 200)], ['reused']],
      ['two of them', [code(0, 200), code(5, 200, { credential: 'codes0.8' })], []],
      ['rotated by itself after its end', [created, rotated, op('rotate', 2_000, 2_010, 200, { overlap: 500 })], ['accepted']],
      ['accepted in its overlap', [created, op('rotate', 1_000, 1_010, 200, { overlap: 2_000 }), use(2_900, 200), use(4_100, 401)], []],
      ['refused in its overlap', [created, op('rotate', 1_000, 1_010, 200, { overlap: 2_000 }), use(2_900, 401)], ['lost']],
      ['the replacement of a suspended token', [created, op('suspend', 500, 510, 200, by), rotated, replacement, use(1_020, 401, next)], []],
      ['such a replacement that is accepted', [created, op('suspend', 500, 510, 200, by), rotated, replacement, use(1_020, 200, next)], ['let_in']],
      ['a suspension during the first of two rotations', [created, op('suspend', 1_000, 1_012, 200, by), rotated, replacement, op('rotate', 2_000, 2_010, 200, { ...next, ...by, overlap: 0 }), op('create', 2_000, 2_010, 200, { credential: 't3', id: 'T3', predecessor: next.credential }), use(2_020, 200, { credential: 't3', id: 'T3' })], ['let_in']],
      ['one before both', [created, op('suspend', 500, 510, 200, by), rotated, replacement, op('rotate', 2_000, 2_010, 200, { ...next, ...by, overlap: 0 }), op('create', 2_000, 2_010, 200, { credential: 't3', id: 'T3', predecessor: next.credential }), use(2_020, 200, { credential: 't3', id: 'T3' })], ['let_in']],
      ['one suspended after it was replaced', [created, rotated, replacement, op('suspend', 1_020, 1_030, 200, by), use(1_040, 200, next)], ['let_in']],
      ['one revoked after it was replaced', [created, rotated, replacement, op('revoke', 1_020, 1_030, 204, by), use(1_040, 200, next)], ['accepted']],
      ['the replacement of a revoked token', [created, rotated, replacement, op('revoke', 1_020, 1_030, 204, by), use(1_040, 401, next)], []],
      ['one that outlives its replacement', [created, op('rotate', 1_000, 1_010, 200, { overlap: 2_000 }), replacement, op('revoke', 1_020, 1_030, 204, { ...next, ...by }), use(1_040, 200)], []],
      ['locked and unlocked', [made, account('lock', 1_000), use(1_020, 401), account('unlock', 2_000), use(2_020, 200)], []],
      ['accepted while its owner is locked', [made, account('lock', 1_000), use(1_020, 200)], ['let_in']],
      ['another owner is locked', [made, account('lock', 1_000, 200, { user: 'u2' }), use(1_020, 200)], []],
      ['the sessions of a locked user', [begun, account('lock', 1_000), account('unlock', 2_000), use(2_020, 401, session)], []],
      ['one that is accepted again', [begun, account('lock', 1_000), account('unlock', 2_000), use(2_020, 200, session)], ['accepted']],
      ['all sessions but one end', [begun, account('end-others', 1_000, 204, { by: 's2' }), use(1_020, 200, session)], ['accepted']],
      ['the one that remains', [begun, account('end-others', 1_000, 204, { by: 's1' }), use(1_020, 200, session)], []],
      ['a session that began meanwhile', [op('create', 1_005, 1_020, 200, session), account('set-password', 1_000), use(1_030, 200, session)], []],
    ],
    ([name, history, rules]) => t.same(rulesOf([lmdb, ...history]), rules, name),
  );
}); // prettier-ignore

t.test('a sidecar that does not serve again', async (t) => {
  t.same(rulesOf([RUN, { type: 'event', event: 'unrecovered', sidecar: 1, start: 1, end: 60_001 }, created]), ['unrecovered']);
}); // prettier-ignore

t.test('availability and the longest gap', async (t) => {
  const use = (start: number, status: number | null, more: object = {}) =>
    op('use', start, start + 10, status, more);
  const uses = [0, 1_000, 2_000, 3_000, 4_000].map((start) =>
    use(start + 20, start === 2_000 || start === 3_000 ? 503 : 200),
  );
  const fault = (more: object): Entry => ({
    type: 'fault',
    fault: 'stop',
    target: 'redis-0',
    start: 1_500,
    end: 3_500,
    ...more,
  });
  const gone = check([RUN, created, ...uses, fault({ gone: true })]).availability;
  const changes = { changes: 1, changesOfUnaffected: 1 };
  t.same(gone, { all: 0.6, whileGone: 0, gap: 3_000, ...changes });
  const own = check([RUN, created, ...uses, fault({ sidecar: 0 })]).availability;
  t.same(own, { all: 1, whileGone: null, gap: 1_000, ...changes }, 'a sidecar that is itself paused');
  const none = check([RUN, created, use(20, 503), use(5_020, 503)]).availability;
  t.same(none, { all: 0, whileGone: null, gap: 5_000, ...changes }, 'no response at all');
  t.equal(check([RUN, created, use(20, 503, { final: true })]).availability.all, null);
  t.equal(boundsHold(check([RUN, created, ...uses]), RUN), true);
  t.equal(boundsHold(check([RUN, created, ...uses, fault({ gone: true })]), RUN), false);
  t.equal(
    boundsHold(check([RUN, created, ...uses, fault({ gone: true })]), { ...RUN, store: 'redis' }),
    true,
  );
});

t.test('reports a violation with all operations on the token', async (t) => {
  const fault = { type: 'fault', fault: 'stop', target: 'redis-0', start: 900, end: 5_000 };
  const failover = { type: 'event', event: 'failover', to: 'redis-1', start: 2_000, end: 2_000 };
  const late = op('use', 9_000, 9_010, 200, { sidecar: 2 });
  const history = [RUN, created, op('use', 20, 30, 200), op('use', 40, 50, 503), revoked, fault, failover, late];
  const text = describe(check(history), history);
  t.match(text, /violations {4}1\n {6}1 {2}accepted though its revocation/);
  t.match(text, /failovers 1/);
  const lines = text.slice(text.indexOf('t1 T1:')).split('\n').map((line) => line.replace(/^(.).* s {2}/, '$1'));
  t.same(lines.slice(1), [
    ' create at sidecar 0: 200',
    ' 2 uses, sidecar 0: 200 × 1, sidecar 0: 503 × 1',
    ' --- stop: redis-0',
    ' revoke at sidecar 0: 204',
    ' --- failover redis-1',
    '!use at sidecar 2: 200',
  ]);
}); // prettier-ignore

/** One operation of a generated history: its kind, its duration, and whether a response arrives. */
const step = fc.record({
  op: fc.constantFrom('use', 'use', 'use', 'revoke'),
  credential: fc.nat(3),
  start: fc.nat(20_000),
  length: fc.nat(3_000),
  /** When it takes effect, in percent of its duration. */
  at: fc.nat(100),
  answer: fc.constantFrom('answered', 'answered', 'answered', 'unanswered', 'not done'),
});

/**
 * The history of one correct register per credential: each operation takes effect at one moment
 * between its start and its end. An operation without a response may or may not have happened.
 */
function linearizable(steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[]): Entry[] {
  const at = (each: (typeof steps)[number]) => each.start + (each.length * each.at) / 100;
  const gone = new Set<number>();
  const entries = [0, 1, 2, 3].map((each) =>
    op('create', 0, 10, 200, { credential: `t${each}`, id: `T${each}` }),
  );
  for (const each of steps.toSorted((a, b) => at(a) - at(b))) {
    const { credential, start, length, answer } = each;
    const wasGone = gone.has(credential);
    const isDone = answer !== 'not done';
    if (each.op === 'revoke' && isDone) gone.add(credential);
    const status = wasGone ? 401 : each.op === 'revoke' ? 204 : 200;
    entries.push(
      op(each.op, 10 + start, 10 + start + length, answer === 'answered' ? status : 503, {
        credential: `t${credential}`,
        id: `T${credential}`,
      }),
    );
  }
  return entries;
}

property('a history of correct registers has no violation', 300, fc.array(step, { maxLength: 60 }), (steps) => {
  for (const run of [RUN, LOSSY]) {
    const { violations, lost } = check([run, ...linearizable(steps)]);
    if (violations.length > 0 || lost > 0) throw new Error(JSON.stringify(violations));
  }
}); // prettier-ignore

const plants: Record<string, (history: readonly Entry[], end: number) => Entry[]> = {
  accepted: (_, end) => [
    op('revoke', end, end + 1, 204),
    op('use', end + 2 + BOUND_MS, end + 3 + BOUND_MS, 200),
  ],
  came_back: (_, end) => [
    op('revoke', end, end + 1, 503),
    op('use', end + 2, end + 3, 401),
    op('use', end + 4 + BOUND_MS, end + 5 + BOUND_MS, 200),
  ],
  lost: () => [
    op('create', 0, 1, 200, { credential: 't9', id: 'T9' }),
    op('use', 2, 3, 401, { credential: 't9', id: 'T9' }),
  ],
  refused: () => [
    op('create', 0, 1, 200, { credential: 't9', id: 'T9' }),
    op('use', 2, 3, 401, { credential: 't9', id: 'T9' }),
    op('use', 4 + BOUND_MS, 5 + BOUND_MS, 200, { credential: 't9', id: 'T9' }),
  ],
  mistaken: () => [op('use', 0, 10, 200, { told: 'T3' })],
  unexpected: () => [op('use', 0, 10, 403)],
};

property(
  'finds a violation planted in a correct history, and no other of its kind',
  300,
  fc.tuple(fc.array(step, { maxLength: 40 }), fc.constantFrom(...Object.keys(plants)), fc.nat()),
  ([steps, rule, order]) => {
    // The violation is planted on t1, so the other operations on it are removed.
    const history = linearizable(steps.filter((each) => each.credential !== 1));
    const end = Math.max(...history.map((each) => each['end'] as number));
    const planted = [...history, ...(plants[rule]?.(history, end) ?? [])];
    // The order of lines must not matter.
    const turn = order % planted.length;
    const found = rulesOf([RUN, ...planted.slice(turn), ...planted.slice(0, turn)]);
    if (found.filter((each) => each === rule).length !== 1) throw new Error(`${rule}: ${found.join(', ')}`);
  },
);
