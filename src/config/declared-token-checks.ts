import type { EpochMs } from '../util/time.js';
import type { DirectoryRules } from './directory-rules.js';
import type { Add } from './fault.js';
import { nearId, suggestion } from './nearest.js';
import type { DirectoryFile } from './schema/directory-file.js';

export function checkDeclaredTokens(
  { users, services, legacy_keys: keys = [], tokens }: DirectoryFile,
  rules: DirectoryRules | undefined,
  now: EpochMs,
  add: Add,
): void {
  const customers = new Map(users.map((user) => [user.id, user.customer_id]));
  const legacy = new Set(keys.map((entry) => entry.key_sha256?.toLowerCase()));
  tokens.forEach((token, i) => {
    const fault = (path: readonly (string | number)[], message: string) =>
      add(['tokens', i, ...path], message);
    const customerId = customers.get(token.user_id);
    if (customerId === undefined)
      fault(['user_id'], `no user has this id${nearId(token.user_id, [...customers.keys()], 'users')}`);
    if (legacy.has(token.secret_sha256.toLowerCase()))
      fault(['secret_sha256'], 'a legacy key has the same hash; an API token needs its own secret');
    const known = services.filter((service) => service.customer_id === customerId).map(({ id }) => id);
    token.services?.forEach((service, j) => {
      if (known.length > 0 && !known.includes(service))
        fault(['services', j], `no service of the customer has this id${nearId(service, known, 'services')}`);
    });
    if (rules === undefined) return;
    token.scope.forEach((scope, j) => {
      if (!rules.scopes.includes(scope))
        fault(['scope', j], `no scope has this name${suggestion(scope, rules.scopes)}`);
    });
    const { maxLifetime } = rules;
    if (maxLifetime !== null && (token.expires_at ?? 0) > now + maxLifetime)
      fault(
        ['expires_at'],
        `is more than ${Math.floor(maxLifetime / 1000)} seconds away, which tokens.max_lifetime forbids`,
      );
  });
}
