import { statSync } from 'node:fs';
import type { Add } from './fault.js';
import { suggestion } from './nearest.js';
import { NO_FILE } from './pem.js';
import type { Config } from './schema/config.js';
import { isKeySetUrl } from './schema/urls.js';

/** Checks what issuers of JWTs refer to: roles, scopes and files; and that each is there once. */
export function checkJwtIssuers({ jwt_issuers: issuers, policy }: Config, add: Add): void {
  const roles = Object.keys(policy.roles);
  const scopes = Object.keys(policy.scopes);
  const seen = new Set<string>();
  issuers.forEach(({ name, issuer, jwks, subjects }, i) => {
    const fault = (path: readonly (string | number)[], message: string) =>
      add(['jwt_issuers', i, ...path], message);
    for (const [key, value] of Object.entries({ name, issuer })) {
      if (seen.has(`${key} ${value}`)) fault([key], 'another issuer has the same; remove one of them');
      seen.add(`${key} ${value}`);
    }
    if (jwks === null && !isKeySetUrl(new URL(issuer)))
      fault(['issuer'], 'discovery needs an https:// URL; set jwks to the URL or file of the keys');
    if (jwks !== null && 'file' in jwks && !isFile(jwks.file)) fault(['jwks', 'file'], NO_FILE);
    subjects.forEach(({ role, scope }, j) => {
      if (!roles.includes(role))
        fault(['subjects', j, 'role'], `no such role in policy.roles${suggestion(role, roles)}`);
      scope.forEach((each, k) => {
        if (!scopes.includes(each))
          fault(['subjects', j, 'scope', k], `no such scope in policy.scopes${suggestion(each, scopes)}`);
      });
    });
  });
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
