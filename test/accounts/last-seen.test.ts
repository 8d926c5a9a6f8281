import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { LastSeen } from '../../src/accounts/last-seen.js';
import type { Subject } from '../../src/domain/credential.js';
import type { Uses } from '../../src/store/core/usage.js';
import { until } from '../helpers/until.js';

const NOW = 1_800_000_000_000;

/** A store that accepts uses when the test says so. */
function slowStore() {
  const taken: Uses[] = [];
  const answers: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];
  const recordUses = (uses: Uses) => {
    taken.push(uses);
    return new Promise<void>((resolve, reject) => answers.push({ resolve, reject }));
  };
  return { store: { recordUses }, taken, answers };
}

const byToken = { credential: 'token', token: { id: 'T1' } } as unknown as Subject;
const session = { digest: 'D1', lastSeenAt: NOW - 3_600_000 };
const bySession = { credential: 'session', session } as unknown as Subject;

t.test('a use is visible before the store has it', async (t) => {
  const { store, answers } = slowStore();
  const lastSeen = new LastSeen(store, 3_600_000, 60_000, (error) => t.fail(String(error)));
  lastSeen.note(byToken, '127.0.0.1', 'curl', NOW);
  lastSeen.note(bySession, '127.0.0.1', undefined, NOW);
  const written = lastSeen.flush();
  await turn();
  t.equal(lastSeen.pending('T1')?.at, NOW);
  t.equal(lastSeen.sessionSeenAt(session), NOW);
  lastSeen.note(byToken, '127.0.0.1', 'curl', NOW + 5);
  t.equal(lastSeen.pending('T1')?.at, NOW + 5, 'a newer one is preferred');
  answers[0]?.resolve();
  await written;
  t.equal(lastSeen.pending('T1')?.at, NOW + 5);
  t.equal(lastSeen.sessionSeenAt(session), session.lastSeenAt, 'the store has it now');
  const closed = lastSeen.close();
  await turn();
  answers[1]?.resolve();
  await closed;
  t.equal(lastSeen.pending('T1'), undefined);
});

t.test('a use that could not be written is kept, unless there is a newer one', async (t) => {
  const { store, taken, answers } = slowStore();
  const lastSeen = new LastSeen(store, 3_600_000, 60_000, () => undefined);
  lastSeen.note(byToken, '127.0.0.1', 'curl', NOW);
  const written = lastSeen.flush();
  await turn();
  lastSeen.note(byToken, '127.0.0.1', 'wget', NOW + 1);
  answers[0]?.reject(new Error('the store is away'));
  await t.rejects(written, { message: 'the store is away' });
  t.equal(lastSeen.pending('T1')?.userAgent, 'wget');
  const closed = lastSeen.close();
  await turn();
  answers[1]?.resolve();
  await closed;
  t.equal(taken[1]?.tokens.get('T1')?.at, NOW + 1);
});

t.test('sessions are written more often than tokens if they would idle out', async (t) => {
  const { store, taken, answers } = slowStore();
  const lastSeen = new LastSeen(store, 3_600_000, 10_000, (error) => t.fail(String(error)));
  lastSeen.note(byToken, '127.0.0.1', 'curl', NOW);
  lastSeen.note(bySession, '127.0.0.1', undefined, NOW);
  await until(() => taken.length > 0, 'a write');
  t.same([...(taken[0]?.sessions.keys() ?? [])], ['D1']);
  t.equal(taken[0]?.tokens.size, 0);
  t.equal(lastSeen.pending('T1')?.at, NOW, 'the use of the token waits');
  answers[0]?.resolve();
  const closed = lastSeen.close();
  await until(() => taken.length > 1, 'the last write');
  t.same([...(taken[1]?.tokens.keys() ?? [])], ['T1']);
  answers[1]?.resolve();
  await closed;
});
