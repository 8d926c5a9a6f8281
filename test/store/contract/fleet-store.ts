import type { Member } from '../../../src/store/core/kinds.js';
import type { Check } from './check.js';

const member = (id: string, more: Partial<Member> = {}): Member => ({
  id,
  sidecar: 'S1',
  name: 'pod-1:8080',
  pid: 7,
  version: '1.0.0',
  configHash: 'abc',
  startedAt: 1_700_000_000_000,
  linkAge: null,
  ...more,
});

/** The processes that use a store, and their answers. */
export async function fleetStoreContract(check: Check): Promise<void> {
  await check('a process is live until it leaves, as it last described itself', async (t, store, reopen) => {
    t.same(await store.fleet.list(), []);
    await store.fleet.leave('nobody');
    await store.fleet.beat(member('B', { linkAge: 40 }));
    await store.fleet.beat(member('A'));
    await store.fleet.beat(member('A', { name: 'pod-1:9090', configHash: 'def' }));
    const found = await (await reopen()).fleet.list();
    t.same(
      found.map(({ age, ...rest }) => (age < 10_000 ? rest : age)),
      [member('A', { name: 'pod-1:9090', configHash: 'def' }), member('B', { linkAge: 40 })],
    );
  });

  await check('a process that left is not listed, and returns with its next heartbeat', async (t, store) => {
    for (const id of ['A', 'B']) await store.fleet.beat(member(id));
    await store.fleet.leave('A');
    t.same((await store.fleet.list()).map(({ id }) => id), ['B']);
    await store.fleet.leave('nobody');
    t.same(await store.fleet.answers('any'), ['A'], 'it counts as having answered');
    await store.fleet.beat(member('A'));
    t.same(await store.fleet.answers('any'), []);
    t.same((await store.fleet.list()).map(({ id }) => id), ['A', 'B']);
  }); // prettier-ignore

  await check('answers belong to their question', async (t, store) => {
    await store.fleet.ask('Q1');
    await store.fleet.ask('Q2');
    t.same(await store.fleet.answers('Q1'), []);
    for (const id of ['A', 'B', 'A']) await store.fleet.answer('Q1', id);
    t.same((await store.fleet.answers('Q1')).toSorted(), ['A', 'B']);
    t.same(await store.fleet.answers('Q2'), []);
  });
}
