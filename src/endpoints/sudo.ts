import type { Logins } from '../accounts/login.js';
import type { SudoGrants } from '../accounts/sudo-grants.js';
import type { AuditEvent } from '../domain/audit.js';
import type { MaybePromise } from '../domain/maybe-promise.js';
import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import { type EpochMs, formatTime } from '../domain/time.js';
import type { User } from '../domain/user.js';
import type { RequestHead } from '../http/head.js';
import type { Handler } from './call.js';
import type { SudoGranted } from './schema/answers.js';
import { readSudo } from './schema/requests.js';

/** POST /sudo: confirms a password, and remembers it for a while with the credential that was sent. */
export function sudoHandler(logins: Logins, grants: SudoGrants): Handler<SudoGranted> {
  return async ({ head, body, subject, now }) => {
    const checked = await logins.check(
      { ...readSudo(body), otp: head.otp, address: head.client.address, caller: subject?.user },
      403,
      async (user) => {
        // Without a credential there is nothing that could remember it.
        if (subject === null) return null;
        return (await grants.grant(subject, user, now)) === 'granted' ? null : 'owner_changed';
      },
    );
    if ('refusal' in checked) return checked;
    return {
      status: 200,
      json: { expiry_time: formatTime(grants.endOf(now)) } satisfies SudoGranted,
      auditEvents:
        subject === null ? checked.auditEvents : [...checked.auditEvents, sudoGrantedEvent(subject)],
    };
  };
}

/** Finds the user whose credential a request has and who confirmed the password with it lately; undefined for nobody. */
export type SudoUser = (head: RequestHead, now: EpochMs) => Promise<User | undefined>;

/** @param identify says whose credential a request has */
export function createSudoUser(
  identify: (head: RequestHead, now: EpochMs) => MaybePromise<Subject | Refusal>,
  grants: SudoGrants,
): SudoUser {
  return async (head, now) => {
    const subject = await identify(head, now);
    return !('refusal' in subject) && (await grants.isActive(subject, now)) ? subject.user : undefined;
  };
}

function sudoGrantedEvent(subject: Subject): AuditEvent {
  const { user } = subject;
  const credential =
    subject.credential === 'session' ? { session_id: subject.session.id } : { token_id: subject.token.id };
  const target = { ...credential, user_id: user.id, customer_id: user.customerId };
  return { event: 'sudo.granted', outcome: 'success', target };
}
