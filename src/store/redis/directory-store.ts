import { loginKey } from '../../domain/user.js';
import type { ChangeRefused, Changes, DirectoryStore } from '../directory-store.js';
import type { RedisClient } from './client.js';
import type { Reads } from './reads.js';
import { customerFrom, serviceFrom, text, userFrom } from './records.js';
import type { EpochMs } from '../../util/time.js';
import type { Token } from '../../domain/token.js';
import { encode } from '../records.js';
import { nameOfChange } from '../revocations.js';
import { OutcomeUnknown, StoreUnavailable } from '../faults.js';
import { batches } from './batches.js';

export function redisDirectoryStore(client: RedisClient, reads: Reads): DirectoryStore {
  return {
    getCustomer: (id) => reads.record(`customer:${id}`, customerFrom),
    getService: (id) => reads.record(`service:${id}`, serviceFrom),
    getUser: (id) => reads.record(`user:${id}`, userFrom),
    getUserByLogin: async (login) => {
      const found = (await client.script('userByLogin', loginKey(login))) as [string, string] | null;
      return found === null ? undefined : userFrom(found[1], found[0]);
    },
    listCustomers: async () => reads.records(await reads.members('customers'), 'customer:', customerFrom),
    listServices: async (customerId) =>
      reads.records(await reads.members(`services:${customerId}`), 'service:', serviceFrom),
    listUsers: async (customerId) =>
      reads.records(await reads.members(`users:${customerId}`), 'user:', userFrom),
    listPendingDeletions: () => reads.members('pending_deletions'),
    getPasswordCost: async () => Number((await reads.text('password_cost')) ?? 0),
    change: (changes, now) => applyChanges(client, changes, now),
  };
}

/** Maximum number of tokens in one change; more are imported before it, in batches. */
const IMPORT_BATCH = 1_000;

/**
 * Applies changes, all or none. Many tokens are imported in batches, so that Redis is not
 * blocked for seconds. Everything else is checked before, and the tokens are removed again if
 * the rest is refused in the end.
 */
async function applyChanges(
  client: RedisClient,
  changes: Changes,
  now: EpochMs,
): Promise<ChangeRefused | undefined> {
  const { tokens = [] } = changes;
  if (tokens.length <= IMPORT_BATCH) return change(client, changes, now, false);
  const refused = await change(client, changes, now, true);
  if (refused !== undefined) return refused;
  try {
    const added = await importTokens(client, tokens);
    const late = await change(client, { ...changes, tokens: [] }, now, false);
    if (late !== undefined) for (const some of batches(added)) await client.script('removeTokens', ...some);
    return late;
  } catch (error) {
    if (!(error instanceof StoreUnavailable) || error instanceof OutcomeUnknown) throw error;
    // Some batches may have been written by now.
    throw new OutcomeUnknown(error.message, { cause: error });
  }
}

async function change(
  client: RedisClient,
  changes: Changes,
  now: EpochMs,
  checkOnly: boolean,
): Promise<ChangeRefused | undefined> {
  const answer = (await client.script('change', changeOf(changes, checkOnly), now)) as string;
  return answer === '' ? undefined : (JSON.parse(answer) as ChangeRefused);
}

/** @returns the ids of tokens that did not exist before */
async function importTokens(client: RedisClient, tokens: readonly Token[]): Promise<string[]> {
  const added: string[] = [];
  for (const some of batches(tokens))
    added.push(...((await client.script('importTokens', ...some.map(text))) as string[]));
  return added;
}

/** Serializes changes for the script: records as strings, and the fields that the script needs. */
function changeOf(changes: Changes, checkOnly: boolean): string {
  const { customers = [], services = [], users = [], tokens = [], declared = [] } = changes;
  const needs = new Set([...users, ...services].map(({ customerId }) => customerId));
  return JSON.stringify({
    checkOnly,
    transfer: changes.transfer === true,
    customers: customers.map((customer) => ({ id: customer.id, text: JSON.stringify(encode(customer)) })),
    services: services.map((service) => ({
      id: service.id,
      customerId: service.customerId,
      text: JSON.stringify(encode(service)),
    })),
    users: users.map((user) => ({
      id: user.id,
      customerId: user.customerId,
      login: user.login,
      loginKey: loginKey(user.login),
      // The login's key is part of the record, because a script cannot fold case as Unicode does.
      text: JSON.stringify({ ...encode(user), loginKey: loginKey(user.login) }),
    })),
    tokens: checkOnly ? [] : tokens.map((token) => JSON.stringify(encode(token))),
    rehashed: changes.rehashed ?? [],
    needs: [...needs],
    declared: declared.map((token) => ({ id: token.id, text: text(token), change: nameOfChange(token) })),
    owners: [...new Set([...tokens, ...declared].map(({ userId }) => userId))],
    revokeDeclared: changes.revokeDeclared ?? [],
    removeTokens: changes.removeTokens ?? [],
    removeUsers: changes.removeUsers ?? [],
    removeServices: changes.removeServices ?? [],
    removeCustomers: changes.removeCustomers ?? [],
    basedOn: [...(changes.basedOn ?? [])].map(([id, updatedAt]) => ({ id, updatedAt: updatedAt ?? -1 })),
  });
}
