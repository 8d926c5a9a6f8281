import t from 'tap';
import { type Ended, endedByName, Endings } from '../../src/store/endings.js';
import { EndedLog, type Environment } from '../../src/store/lmdb/environment.js';
import { movable } from '../helpers/clock.js';
import { until } from '../helpers/until.js';

t.test('remembers ended credentials longer than a request waits', async (t) => {
  const pass = movable(t, performance);
  const endings = new Endings();
  const subject = { credential: 'token', user: { id: 'U1' }, token: { id: 'T1', digest: 'D1' } } as never;
  const judgedAt = performance.now();
  endings.ended(endedByName(['token:T1']));
  t.ok(endings.hasEndedSince(subject, judgedAt));
  t.notOk(endings.hasEndedSince(subject, performance.now() + 1), 'a request that began later');
  pass(400_000);
  endings.ended(endedByName(['token:T2']));
  t.notOk(endings.hasEndedSince(subject, judgedAt), 'forgotten');
});

t.test('what could not be read from the store is reported later', async (t) => {
  const log = new Map<number, string>();
  let failures = 0;
  const ended = {
    getKeys: () => [log.size],
    getRange: ({ start }: { start: number }) => {
      if (failures++ < 2) throw new Error('EIO');
      return [...log].filter(([key]) => key >= start).map(([, value]) => ({ value }));
    },
  };
  const environment = { ended, root: { resetReadTxn: () => undefined } };
  const endings = new Endings();
  const told: (Ended | null)[] = [];
  endings.on('ended', (what) => told.push(what));
  const polled = new EndedLog(environment as unknown as Environment, endings);
  log.set(1, 'token:T1');
  await until(() => told.length > 0, 'it is reported', 2_000).catch(() => undefined);
  t.same(told, [new Map([['token:T1', 'ended']])]);
  polled.close();
});
