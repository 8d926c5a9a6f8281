import t from 'tap';
import { collectReceipt, type KnownFleet } from '../../src/accounts/fleet-receipts.js';
import { createMembership } from '../../src/server/fleet.js';
import { Endings } from '../../src/store/endings.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import type { FleetStore, LiveMember } from '../../src/store/core/fleet.js';
import { until } from '../helpers/until.js';

const WAIT_MS = 600;

const member = (id: string, more: Partial<LiveMember> = {}): LiveMember => ({
  id,
  sidecar: id,
  name: `${id}:8080`,
  pid: 1,
  version: '1',
  configHash: 'x',
  startedAt: 0,
  linkAge: null,
  age: 100,
  ...more,
});

/** A fleet whose members answer after the given milliseconds; undefined means never. */
function fleetOf(members: LiveMember[], answerAfter: Record<string, number | undefined>, more: Partial<FleetStore> = {}): FleetStore {
  const answered = new Set<string>();
  return {
    beat: async () => undefined,
    list: async () => members,
    leave: async () => undefined,
    ask: async () => {
      for (const [id, ms] of Object.entries(answerAfter))
        if (ms !== undefined) setTimeout(() => answered.add(id), ms);
    },
    answer: async () => undefined,
    answers: async () => [...answered],
    ...more,
  };
} // prettier-ignore

const unknown: KnownFleet = { members: [], self: null };
const collect = (store: FleetStore, known = unknown) =>
  collectReceipt(store, known, performance.now(), WAIT_MS);

t.test('a sidecar counts when all of its processes have answered, by its slowest one', async (t) => {
  const members = [member('A'), member('B1', { sidecar: 'B', name: 'B:8080' }), member('B2', { sidecar: 'B', name: 'B:8080' })];
  const [{ slowestMs, ...rest }, late, silent, none] = await Promise.all([
    collect(fleetOf(members, { A: 10, B1: 20, B2: 150 })),
    collect(fleetOf(members, { A: 10, B1: 20 })),
    collect(fleetOf([member('A')], {})),
    collect(fleetOf([], {})),
  ]);
  t.same(rest, { sidecars: 2, missing: [] });
  t.ok(slowestMs !== null && slowestMs >= 150 && slowestMs < WAIT_MS, `${slowestMs} ms`);
  t.match(late, { sidecars: 2, slowestMs: Number, missing: [{ name: 'B:8080', heartbeatAge: 100 }] });
  t.same(silent, { sidecars: 1, slowestMs: null, missing: [{ name: 'A:8080', heartbeatAge: 100 }] });
  t.same(none, { sidecars: 0, slowestMs: null, missing: [] });
}); // prettier-ignore

t.test('a member that is not listed any more has not confirmed, unless it left', async (t) => {
  const [A, B] = [member('A'), member('B')];
  let listed = [A, B];
  const rows: [string, Partial<FleetStore>, known: LiveMember[], sidecars: number, missing: string[]][] = [
    ['left during the wait', fleetOf([A, B], { A: 10, B: 100 }), [], 2, []],
    ['left before', { list: async () => [A], answers: async () => ['B'] }, [A, B], 1, ['A:8080']],
    ['not listed during the wait, because a clock was set', { list: async () => listed }, [], 2, ['B:8080']],
    ['not listed before', { list: async () => [A] }, [A, B], 2, ['B:8080']],
    ['nobody listed', { list: async () => [] }, [A, B], 2, ['B:8080']],
  ];
  const collected = rows.map(async ([what, store, members, sidecars, missing]) => {
    const receipt = await collect(fleetOf([], { A: 10 }, store), { members, self: null });
    t.same([receipt.sidecars, receipt.missing.map(({ name }) => name)], [sidecars, missing], what);
  });
  setTimeout(() => (listed = [A]), 50);
  await Promise.all(collected);
}); // prettier-ignore

t.test('with the store unavailable, reports all known members as missing, itself included', async (t) => {
  const down = () => {
    throw new StoreUnavailable('down');
  };
  const known = { members: [member('A'), member('B')], self: member('B') };
  const gone = { list: async () => down(), ask: async () => down(), answers: async () => down() };
  let failures = 3;
  const back = { ask: async () => (failures-- > 0 ? down() : undefined), answers: async () => ['A', 'B'] };
  const lapsed = { members: [], self: member('B') };
  const receipts = await Promise.all([
    collect(fleetOf([], {}, gone), known),
    collect(fleetOf([member('A')], {}, back), known),
    collect(fleetOf([member('A')], { A: 5 }), lapsed),
  ]);
  t.match(receipts[0], { sidecars: 2, slowestMs: null, missing: [{ name: 'A:8080' }, { name: 'B:8080' }] });
  t.match(receipts[1], { sidecars: 2, missing: [] }, 'a store that recovers in time');
  t.match(receipts[2], { sidecars: 2, missing: [{ name: 'B:8080' }] }, 'its own heartbeat is missing');
  const broken = { ask: async () => { throw new TypeError('a fault'); } };
  await t.rejects(collect(fleetOf([member('A')], {}, broken)), TypeError);
}); // prettier-ignore

t.test('writes a heartbeat as soon as an outage is over', async (t) => {
  let beats = 0;
  const store = fleetOf([member('B')], {}, { beat: async () => void (beats += 1) });
  const endings = new Endings();
  const log = { warn: () => undefined } as unknown as Parameters<typeof createMembership>[2];
  const membership = createMembership(store, endings, log, 'x', 8080, async () => undefined);
  endings.emit('resumed');
  t.equal(beats, 0, 'it has not joined');
  await membership.join();
  endings.emit('resumed');
  await until(() => beats === 2, 'another heartbeat');
  t.same(membership.known().members.map(({ id }) => id), ['B']);
  await membership.leave();
}); // prettier-ignore
