import t from 'tap';
import { endedByName, RecentEnds } from '../../src/store/endings.js';

t.test('remembers ended credentials longer than a request waits', async (t) => {
  const ends = new RecentEnds();
  const subject = { credential: 'token', user: { id: 'U1' }, token: { id: 'T1', digest: 'D1' } } as never;
  ends.note(endedByName(['token:T1']), 1_000);
  t.ok(ends.hasEndedSince(subject, 900));
  t.notOk(ends.hasEndedSince(subject, 1_001), 'a request that began later');
  ends.note(endedByName(['token:T2']), 400_000);
  t.notOk(ends.hasEndedSince(subject, 900), 'forgotten');
});
