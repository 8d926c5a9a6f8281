import type { Logins } from '../accounts/login.js';
import type { Sessions } from '../accounts/sessions.js';
import type { AuditFact } from '../domain/audit.js';
import { formatSessionCookie } from '../http/cookies.js';
import { firstField } from '../http/fields.js';
import type { Store } from '../store/store.js';
import type { Handler } from './call.js';
import type { LoggedIn } from './schema/answers.js';
import { readLogin } from './schema/requests.js';
import { sessionFact } from './session-facts.js';

/** What the web page sends along to log out. */
const PAGE_FIELD = 'latchkey-page';

/** POST /login: a session for a login name and a password. */
export function loginHandler(
  logins: Logins,
  sessions: Sessions,
  store: Store,
  cookieName: string,
): Handler<LoggedIn> {
  return async ({ head, body, now }) => {
    const checked = await logins.check(
      { ...readLogin(body), otp: head.otp, address: head.client.address },
      401,
    );
    if ('refusal' in checked) return checked;
    const { user } = checked;
    const customer = await store.getCustomer(user.customerId);
    const { secret, session } = await sessions.start(user, head.client.address, head.userAgent, now);
    const facts = [...checked.facts, sessionFact('session.started', session)];
    // A new id at every login: what the browser held before is over, whoever set it (session fixation).
    const before = head.session === undefined ? undefined : await sessions.find(head.session, now);
    if (before !== undefined) {
      await sessions.end(before.session);
      facts.push(sessionFact('session.ended', before.session, 'new_login'));
    }
    const cookie = { name: cookieName, value: secret, maxAge: sessions.maxAge, secure: head.client.secure };
    return {
      facts,
      status: 200,
      fields: ['Set-Cookie', formatSessionCookie(cookie)],
      json: {
        user: {
          id: user.id,
          name: user.name,
          login: user.login,
          role: user.role,
          customer_id: user.customerId,
        },
        customer: { id: user.customerId, name: customer?.name ?? '' },
      } satisfies LoggedIn,
    };
  };
}

/**
 * POST /logout: ends the session that asks. When the web page asks, which says so by a field of its own, the browser
 * is told to drop what it kept of this origin; other pages of the origin may have reasons to keep theirs.
 */
export function logoutHandler(sessions: Sessions, cookieName: string): Handler<undefined> {
  return async ({ head, subject }) => {
    const cookie = { name: cookieName, value: '', maxAge: 0, secure: head.client.secure };
    const facts: AuditFact[] = [];
    if (subject?.credential === 'session') {
      await sessions.end(subject.session);
      facts.push(sessionFact('session.ended', subject.session, 'logout'));
    }
    const clear =
      firstField(head.fields, PAGE_FIELD) === undefined ? [] : ['Clear-Site-Data', '"cache", "storage"'];
    return { status: 204, facts, fields: ['Set-Cookie', formatSessionCookie(cookie), ...clear] };
  };
}
