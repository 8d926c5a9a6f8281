import type { Lines } from '../policy/rules.js';
import type { ConfigWarning } from './fault.js';
import type { Config } from './schema/config.js';

/** Returns warnings for names of claims that are likely a mistake. */
export function claimWarnings({ login }: Config, lines: Lines): ConfigWarning[] {
  return login.oidc.flatMap(({ login_claim: claim, roles }, i) => [
    ...nestedWarnings(claim, `login.oidc.${i}.login_claim`, lines),
    ...nestedWarnings(roles.claim, `login.oidc.${i}.roles.claim`, lines),
  ]);
}

/** A name with a dot is often meant as a path; the names that providers make up are mostly URLs. */
function nestedWarnings(claim: string, at: string, lines: Lines): ConfigWarning[] {
  if (claim.startsWith('/') || !claim.includes('.') || URL.canParse(claim)) return [];
  const pointer = `/${claim.replaceAll('.', '/')}`;
  const message = `${at}: ${claim} is the name of one claim, dots included; a nested claim is written ${pointer}`;
  return [{ line: lines[at] ?? null, message }];
}
