import t from 'tap';
import { type Ended, endedByName, Endings, RecentEnds } from '../../src/store/endings.js';
import { EndedLog, type Environment } from '../../src/store/lmdb/environment.js';
import { until } from '../helpers/until.js';

t.test('remembers ended credentials longer than a request waits', async (t) => {
  const ends = new RecentEnds();
  const subject = { credential: 'token', user: { id: 'U1' }, token: { id: 'T1', digest: 'D1' } } as never;
  ends.note(endedByName(['token:T1']), 1_000);
  t.ok(ends.hasEndedSince(subject, 900));
  t.notOk(ends.hasEndedSince(subject, 1_001), 'a request that began later');
  ends.note(endedByName(['token:T2']), 400_000);
  t.notOk(ends.hasEndedSince(subject, 900), 'forgotten');
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
  endings.listen({ ended: (what) => void told.push(what) });
  const polled = new EndedLog(environment as unknown as Environment, endings);
  log.set(1, 'token:T1');
  await until(() => told.length > 0, 'it is reported', 2_000).catch(() => undefined);
  t.same(told, [new Map([['token:T1', 'ended']])]);
  polled.close();
});
