import t from 'tap';
import { revokeAll } from '../../src/commands/token.js';
import { changeUser, recordChange, removeUser } from '../../src/commands/with-store.js';
import type { LoadedConfig } from '../../src/config/load.js';
import type { AuditEvent } from '../../src/domain/audit.js';
import type { User } from '../../src/domain/user.js';
import type { OpenedStore } from '../../src/server/stores/open-store.js';
import type { Changes } from '../../src/store/directory-store.js';

// Another process changes the store between the reads and the writes of a command.

const BOB = { id: 'U1', login: 'bob', name: 'Bob', updatedAt: 1 } as User;

/** A store whose user is renamed by others before each of the first writes. */
function busy(renames: number) {
  let user: User | undefined = BOB;
  const directory = {
    getUser: () => user,
    getUserByLogin: () => ({ ...BOB, id: 'another' }),
    change: async ({ users, removeUsers, basedOn }: Changes) => {
      if (user !== undefined && renames-- > 0)
        user = { ...user, name: `${user.name}!`, updatedAt: user.updatedAt + 1 };
      if (basedOn?.get('U1') !== user?.updatedAt) return { reason: 'changed_meanwhile', userId: 'U1' };
      user = removeUsers === undefined ? users?.[0] : undefined;
      return undefined;
    },
  };
  return { opened: { store: { directory } } as unknown as OpenedStore, user: () => user };
}

t.test('a change of a user keeps what others changed in the meantime', async (t) => {
  const locking = busy(2);
  await changeUser(locking.opened, BOB, { locked: true });
  t.match(locking.user(), { id: 'U1', name: 'Bob!!', locked: true });
  const removing = busy(1);
  await removeUser(removing.opened, BOB);
  t.equal(removing.user(), undefined);
  await t.rejects(
    changeUser(busy(100).opened, BOB, {}),
    /changed by someone else in the meantime; try again/,
  );
});

/** A store with tokens that others remove, one before each of the first writes. */
function shrinking(tokens: string[], removals: number) {
  const recorded: AuditEvent[] = [];
  const opened = {
    audit: { record: (...events: AuditEvent[]) => void recorded.push(...events) },
    store: {
      directory: { getUserByLogin: () => BOB, getUser: () => undefined },
      tokens: {
        family: () => [],
        listOfUser: () => tokens.map((id) => ({ token: { id } })),
        revoke: async (ids: readonly string[]) => {
          if (removals-- > 0) tokens.shift();
          const missing = ids.filter((id) => !tokens.includes(id));
          if (missing.length === 0) tokens.splice(0);
          return { missing, revoked: missing.length === 0 ? ids : [] };
        },
      },
    },
  };
  return { opened: opened as unknown as OpenedStore, tokens, recorded };
}

t.test('revoking every token of a user is not kept from it by one that ends meanwhile', async (t) => {
  const loaded = { config: { tokens: {}, policy: { scopes: {} } } } as unknown as LoadedConfig;
  const { opened, tokens, recorded } = shrinking(['a', 'b', 'c'], 2);
  t.same([await revokeAll(loaded, opened, 'bob'), tokens], [{ revoked: ['c'], further: 0 }, []]);
  t.match(recorded, [{ event: 'token.revoked', target: { token_id: 'c' } }]);
  t.equal(recorded.length, 1);
});

t.test('what others did is not recorded', async (t) => {
  const { opened, recorded } = shrinking([], 0);
  const event: AuditEvent = { event: 'session.ended', outcome: 'success' };
  for (const hasEnded of [false, true]) await recordChange(opened, [event], async () => hasEnded, Boolean);
  t.equal(recorded.length, 1);
});
