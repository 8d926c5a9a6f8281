import t from 'tap';
import { changeUser, recordChange, writeUser } from '../../src/commands/with-store.js';
import type { AuditEvent } from '../../src/domain/audit.js';
import type { User } from '../../src/domain/user.js';
import type { OpenedStore } from '../../src/server/stores/open-store.js';
import type { Changes } from '../../src/store/core/directory-checks.js';

// Another process changes the store between the reads and the writes of a command.

const BOB = { id: 'U1', login: 'bob', name: 'Bob', updatedAt: 1 } as User;

/** A store whose user was renamed since, and is renamed again before some of the writes. */
function busy(renames: number) {
  let user: User | undefined = { ...BOB, name: 'Bob!', updatedAt: 2 };
  const directory = {
    getUser: () => user,
    change: async ({ users, removeUsers, basedOn }: Changes) => {
      if (user !== undefined && renames-- > 0) user = { ...user, updatedAt: user.updatedAt + 1 };
      if (basedOn?.get('U1') !== user?.updatedAt) return { reason: 'changed_meanwhile', userId: 'U1' };
      user = removeUsers === undefined ? users?.[0] : undefined;
      return undefined;
    },
  };
  return { opened: { store: { directory } } as unknown as OpenedStore, user: () => user };
}

t.test('a change of a user keeps what others changed since it was read', async (t) => {
  const locking = busy(2);
  await changeUser(locking.opened, BOB, { locked: true });
  t.match(locking.user(), { id: 'U1', name: 'Bob!', locked: true });
  const removing = busy(1);
  await writeUser(removing.opened, BOB, ({ id }) => ({ removeUsers: [id] }));
  t.equal(removing.user(), undefined);
  await t.rejects(
    changeUser(busy(100).opened, BOB, {}),
    /changed by someone else in the meantime; try again/,
  );
});

t.test('what others did is not recorded', async (t) => {
  const recorded: AuditEvent[] = [];
  const audit = { record: (...events: AuditEvent[]) => void recorded.push(...events) };
  const opened = { audit } as unknown as OpenedStore;
  const event: AuditEvent = { event: 'session.ended', outcome: 'success' };
  for (const hasEnded of [false, true]) await recordChange(opened, [event], async () => hasEnded, Boolean);
  t.equal(recorded.length, 1);
});
