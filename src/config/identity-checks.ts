import type { Add } from './fault.js';
import { foldName } from '../http/protected-fields.js';
import { identityPreset } from './schema/identity-presets.js';
import type { Config } from './schema/config.js';
import { isTaken } from './taken-names.js';

export function checkIdentity(config: Config, add: Add): void {
  const { headers, claims, assertion } = config.identity;
  const seen = new Map<string, string>();
  const names: [string, readonly string[], string | null][] = Object.entries(headers).map(([fact, name]) => [
    fact,
    ['headers', fact],
    name,
  ]);
  for (const [name, claim] of Object.entries(claims)) names.push([claim, ['claims', name], name]);
  names.push(['assertion', ['assertion', 'header'], assertion.enabled ? assertion.header : null]);
  for (const [what, path, name] of names) {
    if (name === null) continue;
    const at = ['identity', ...path];
    if (isTaken(name, config)) add(at, 'this header already has a different meaning; choose another name');
    const folded = foldName(name);
    const other = seen.get(folded);
    if (other !== undefined) add(at, `this is already the header of ${other}; choose another name`);
    seen.set(folded, what);
  }
  checkRoleNames(config, add);
  if (assertion.enabled) checkAssertion(config, add);
}

/** Upstreams of some presets read the role as a list: a comma would give the user another group. */
function checkRoleNames({ identity, policy }: Config, add: Add): void {
  if (!identityPreset(identity.preset).roleIsList || identity.headers.role === null) return;
  for (const role of Object.keys(policy.roles)) {
    if (!role.includes(',')) continue;
    const message = `its name has a comma, and with identity.preset: ${identity.preset} upstreams read the role as a list`;
    add(['policy', 'roles', role], message);
  }
}

function checkAssertion({ identity, store }: Config, add: Add): void {
  for (const key of ['issuer', 'audience'] as const) {
    if (identity.assertion[key] !== null) continue;
    add(['identity', 'assertion', key], 'is required when assertions are enabled');
  }
  if (store.type === 'redis' && store.sealing_key === null) {
    add(
      ['store', 'sealing_key'],
      'is required when identity.assertion is enabled; make one with "openssl rand -hex 32"',
    );
  }
}
