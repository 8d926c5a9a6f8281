import type { Grant, LoggedIn } from '../accounts/login.js';
import type { Refusal } from '../domain/refusal.js';
import type { Call } from './endpoint.js';
import type { EndpointServices } from './services.js';

/**
 * Grants what a password would to a user without one, who has a session from a fresh login at the provider.
 * @param status of the refusal when the account changed since the login
 * @returns undefined for a user of no configured provider
 */
export async function checkFreshLogin<Granted extends object | null>(
  { head, now }: Pick<Call, 'head' | 'now'>,
  { oidc, identify, sudoGrants, page }: EndpointServices,
  status: 400 | 403,
  grant: Grant<Granted>,
): Promise<LoggedIn<Granted> | Refusal | undefined> {
  if (oidc === null || identify === null) return undefined;
  const subject = await identify(head, now);
  if ('refusal' in subject || subject.credential !== 'session') return undefined;
  const { user } = subject;
  const provider = user.provider === undefined ? undefined : oidc.logins.ofIssuer(user.provider.issuer);
  if (provider === undefined) return undefined;
  if (!(await sudoGrants.isFresh(subject, now))) {
    const login = `${page.path}oidc/${provider.name}/login?fresh=1`;
    const detail = `You have no password; log in at the provider again: ${login}`;
    return { refusal: 'grant', status: 400, code: 'invalid_request', detail };
  }
  const granted = await grant(user);
  if (granted === 'owner_changed') {
    const detail = 'Your account changed since the login; log in again';
    return { refusal: 'grant', status, code: 'invalid_grant', detail };
  }
  if (granted !== null && 'refusal' in granted) return granted;
  return { user, granted, auditEvents: [] };
}
