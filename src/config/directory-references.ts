import type { Lines } from '../policy/rules.js';
import type { ConfigWarning } from './fault.js';
import { suggestion } from './nearest.js';
import type { Config } from './schema/config.js';
import type { DirectoryFile } from './schema/directory-file.js';

/**
 * Returns warnings for customers and services of providers and issuers that the directory file does not
 * declare.
 */
export function referenceWarnings(
  { login, jwt_issuers: issuers }: Config,
  { customers, services }: Pick<DirectoryFile, 'customers' | 'services'>,
  lines: Lines,
): ConfigWarning[] {
  const warnings: ConfigWarning[] = [];
  const add = (path: string, what: string, id: string, known: readonly string[]) => {
    if (known.includes(id)) return;
    const message = `${path}: ${what} in the directory file has this id${suggestion(id, known)}`;
    warnings.push({ line: lines[path] ?? null, message });
  };
  const ids = customers.map(({ id }) => id);
  login.oidc.forEach(({ customer_id: id }, i) => add(`login.oidc.${i}.customer_id`, 'no customer', id, ids));
  issuers.forEach(({ subjects }, i) =>
    subjects.forEach(({ customer_id: customer, services: limit }, j) => {
      const path = `jwt_issuers.${i}.subjects.${j}`;
      add(`${path}.customer_id`, 'no customer', customer, ids);
      const own = services.filter((each) => each.customer_id === customer).map(({ id }) => id);
      // A customer without listed services may have any, as for tokens.
      if (own.length > 0)
        limit?.forEach((id, k) => add(`${path}.services.${k}`, 'no service of this customer', id, own));
    }),
  );
  return warnings;
}
