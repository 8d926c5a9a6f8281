import { loginKey } from '../../domain/user.js';
import { encode } from '../records.js';
import type { Changes } from '../store.js';

/** Tokens that one step takes; more are imported before it, in batches. */
export const IMPORT_BATCH = 1_000;

/** Changes as the script takes them: records as texts beside what the script has to know of them. */
export function changeOf(changes: Changes, checkOnly: boolean): string {
  const { customers = [], services = [], users = [], tokens = [] } = changes;
  const needs = new Set([...users, ...services, ...tokens].map(({ customerId }) => customerId));
  return JSON.stringify({
    checkOnly,
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
      // The login's key is part of the record, because a script can't fold letters as Unicode does.
      text: JSON.stringify({ ...encode(user), loginKey: loginKey(user.login) }),
    })),
    tokens: checkOnly ? [] : tokens.map((token) => JSON.stringify(encode(token))),
    needs: [...needs],
    removeTokens: changes.removeTokens ?? [],
    removeUsers: changes.removeUsers ?? [],
    removeServices: changes.removeServices ?? [],
    removeCustomers: changes.removeCustomers ?? [],
    basedOn: [...(changes.basedOn ?? [])].map(([id, updatedAt]) => ({ id, updatedAt: updatedAt ?? -1 })),
  });
}
