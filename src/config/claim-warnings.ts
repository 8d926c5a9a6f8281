import type { Lines } from '../policy/rules.js';
import type { ConfigWarning } from './fault.js';
import type { Config } from './schema/config.js';

export function claimWarnings(
  { login, jwt_issuers: issuers, identity }: Config,
  lines: Lines,
): ConfigWarning[] {
  const warnings: ConfigWarning[] = [];
  const warn = (at: string, message: string | undefined) => {
    if (message !== undefined) warnings.push({ line: lines[at] ?? null, message: `${at}: ${message}` });
  };
  login.oidc.forEach(({ login_claim: claim, roles }, i) => {
    warn(`login.oidc.${i}.login_claim`, nestedWarning(claim));
    warn(`login.oidc.${i}.roles.claim`, nestedWarning(roles.claim));
  });
  for (const [header, claim] of Object.entries(identity.claims))
    warn(`identity.claims.${header}`, nestedWarning(claim));
  issuers.forEach(({ subjects }, i) => {
    subjects.forEach(({ claims }, j) => {
      for (const [name, pattern] of Object.entries(claims)) {
        const at = `jwt_issuers.${i}.subjects.${j}.claims.${name}`;
        warn(at, nestedWarning(name));
        if (/^\/?(?:scope|scp)$/.test(name)) warn(at, partWarning(pattern));
      }
    });
  });
  return warnings;
}

/** A name with a dot is often meant as a path; the names that providers make up are mostly URLs. */
function nestedWarning(claim: string): string | undefined {
  if (claim.startsWith('/') || !claim.includes('.') || URL.canParse(claim)) return undefined;
  const pointer = `/${claim.replaceAll('.', '/')}`;
  return `${claim} is the name of one claim, dots included; a nested claim is written ${pointer}`;
}

/** A pattern that cuts the name of a scope in two matches other scopes, too. */
function partWarning(pattern: string): string | undefined {
  if (!/^\*\w|\w\*$/.test(pattern)) return undefined;
  const scope = pattern.replace('*', '');
  return `${pattern} also matches other scopes, such as ${pattern.replace('*', 're')}; each scope is compared by itself, so write ${scope}`;
}
