import t from 'tap';
import { createMembership } from '../../src/server/fleet.js';
import type { FleetStore } from '../../src/store/core/fleet.js';
import type { Log } from '../../src/observe/log.js';

t.test('heartbeats that fail for longer than a process counts as live are reported, once', async (t) => {
  const clock = performance.now.bind(performance);
  let passed = 0;
  performance.now = () => clock() + passed;
  t.teardown(() => (performance.now = clock));
  let isAway = true;
  let beats = 0;
  const store = {
    beat: async () => {
      beats += 1;
      if (isAway) throw new Error('store/fleet cannot be written');
    },
    list: async () => [],
    leave: async () => undefined,
  } as unknown as FleetStore;
  const warnings: unknown[] = [];
  const log = { warn: (...entry: unknown[]) => void warnings.push(entry) } as unknown as Log;
  const member = createMembership(store, { on: () => undefined } as never, log, 'hash', 8080, async () => undefined); // prettier-ignore
  const beat = async (later: number) => {
    passed += later;
    member.update({});
    await new Promise((done) => setImmediate(done));
  };
  const expected = [
    { reason: 'store/fleet cannot be written' },
    'heartbeats not written; other sidecars take this process for gone',
  ];
  await beat(11_000);
  t.same(warnings, [], 'not yet');
  await beat(2_000);
  await beat(3_000);
  t.same(warnings, [expected]);
  isAway = false;
  await beat(3_000);
  isAway = true;
  await beat(3_000);
  t.equal(warnings.length, 1, 'a single heartbeat is missing');
  await beat(12_000);
  t.same(warnings, [expected, expected], 'the next outage is reported, too');
  t.equal(beats, 6);
});

t.test('a process that leaves during a slow heartbeat is not listed afterwards', async (t) => {
  const listed = new Set<string>();
  let write = (): void => undefined;
  const store = {
    beat: ({ id }: { id: string }) =>
      new Promise<void>((done) => {
        write = () => {
          listed.add(id);
          done();
        };
      }),
    list: async () => [],
    leave: async (id: string) => void listed.delete(id),
  } as unknown as FleetStore;
  const member = createMembership(store, { on: () => undefined } as never, {} as Log, 'hash', 8080, async () => undefined); // prettier-ignore
  member.update({});
  member.update({});
  const left = member.leave();
  await new Promise((done) => setImmediate(done));
  write();
  await left;
  t.same([...listed], []);
});
