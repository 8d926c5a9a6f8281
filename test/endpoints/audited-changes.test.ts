import t from 'tap';
import { OutcomeUnknown, StoreUnavailable } from '../../src/store/faults.js';
import type { Changes } from '../../src/store/core/directory-checks.js';
import type { TokenRevocation } from '../../src/store/core/token-records.js';
import type { Store } from '../../src/store/core/store.js';
import { OTP_SECRET, otpAt, PASSWORD } from '../helpers/fixture.js';
import { IdentityProvider } from '../helpers/identity-provider.js';
import { startInProcess } from '../helpers/in-process.js';

type Result = readonly unknown[] | string | boolean | undefined;

/** The events of a change that the store made, by operation. */
const EVENTS: Record<string, (result: Result, args: readonly unknown[]) => string[]> = {
  'sessions.create': (ended) =>
    typeof ended === 'string' ? [] : ['session.started', ...(ended as []).map(() => 'session.ended')],
  'sessions.end': (ended) => (ended === true ? ['session.ended'] : []),
  'sessions.endOfUser': (ended) => Array.from(ended as [], () => 'session.ended'),
  'sessions.grantSudo': (granted) => (granted === 'granted' ? ['sudo.granted'] : []),
  'directory.change': (refused, [changes]) => {
    const { users = [], basedOn, rehashed } = changes as Changes;
    if (refused !== undefined || rehashed !== undefined) return [];
    return users.map(({ id }) => (basedOn?.get(id) === null ? 'user.created' : 'user.changed'));
  },
  'usage.takeOtpStep': (taken) => (taken === true ? ['otp.accepted'] : []),
  'tokens.create': (created) => (created === 'created' ? ['token.created'] : []),
  'tokens.rotate': (rotated) => (rotated === 'rotated' ? ['token.created', 'token.rotated'] : []),
  'tokens.revoke': (revocation) =>
    (revocation as unknown as TokenRevocation).revoked.map(() => 'token.revoked'),
  'tokens.update': (updated) => (updated === 'updated' ? ['token.changed'] : []),
};
const CHANGES = new Set([
  'otp.accepted',
  'session.ended',
  'session.started',
  'sudo.granted',
  'token.changed',
  'token.created',
  'token.revoked',
  'token.rotated',
  'user.changed',
  'user.created',
]);

/** How an operation fails: without effect, or after its effect. */
type Failure = 'unavailable' | 'unconfirmed';

/** The operation that fails next, counted from 1; 0 for none. What the store did since. */
const plan = { failing: 0, failure: 'unavailable' as Failure, calls: 0, failed: '', made: [] as string[] };

function unreliable(store: Store): Store {
  const parts = Object.entries(store).map(([name, part]) => [
    name,
    Object.fromEntries(
      Object.entries(part as Record<string, (...args: unknown[]) => unknown>).map(([method, work]) => {
        const operation = `${name}.${method}`;
        // Last uses are written in the background.
        if (['usage.recordUses', 'webhooks.subscribe', 'maintenance.close'].includes(operation)) return [method, work];
        return [method, (...args: unknown[]) => called(operation, work, args)];
      }),
    ),
  ]);
  return Object.fromEntries(parts) as Store;
} // prettier-ignore

function called(operation: string, work: (...args: unknown[]) => unknown, args: unknown[]): unknown {
  const eventsOf = EVENTS[operation];
  // What changes nothing cannot fail after its effect.
  if (plan.failure === 'unconfirmed' && eventsOf === undefined) return work(...args);
  plan.calls += 1;
  const fails = plan.calls === plan.failing;
  if (fails) plan.failed = operation;
  if (fails && plan.failure === 'unavailable') return Promise.reject(new StoreUnavailable('away'));
  if (eventsOf === undefined) return work(...args);
  return (work(...args) as Promise<Result>).then((result) => {
    // Without the reply, nobody knows which sessions ended to make room for a new one.
    const isEnded = (event: string) => operation === 'sessions.create' && event === 'session.ended';
    plan.made.push(...eventsOf(result, args).filter((event) => !fails || !isEnded(event)));
    if (fails) throw new OutcomeUnknown('no reply');
    return result;
  });
}

const idp = await IdentityProvider.start(t);
const server = await startInProcess(
  t,
  {
    interface: { account_endpoints: true, token_endpoints: 'session_or_token' },
    sessions: { max_per_user: 2 },
    login: {
      max_failures: 100,
      public_url: 'https://api.example',
      oidc: [{ name: 'sso', title: 'x', issuer: idp.url, client_id: 'latchkey', client_secret: 'secret', customer_id: 'C1', roles: { claim: 'groups', map: { devs: 'engineer' } } }],
    },
  },
  { opened: (opened) => ({ store: unreliable(opened.store) }) },
); // prettier-ignore
const { request, login, opened } = server;

let people = 0;
/** A new user with two factors. */
async function person(): Promise<string> {
  const id = `two${people++}`;
  const known = await opened.store.directory.getUser('engineer');
  if (known === undefined) throw new Error('no such user');
  const otpSecret = opened.sealer.seal(OTP_SECRET, id);
  await opened.store.directory.change({ users: [{ ...known, id, login: `${id}@example.com`, otpSecret }] }, Date.now());
  return `${id}@example.com`;
} // prettier-ignore

const form = (fields: Record<string, string>, headers: Record<string, string> = {}) => ({
  body: new URLSearchParams(fields),
  headers,
});
const cookieOf = (headers: { 'set-cookie'?: string | string[] | undefined }, name: string) =>
  [headers['set-cookie'] ?? []]
    .flat()
    .find((each) => each.includes(name))
    ?.split(';', 1)[0] ?? '';
const withCode = () => ({ 'Service-OTP': otpAt(Date.now()) });

/** Logs in at the provider as far as the callback; returns the callback's path and cookie. */
async function begun(sub: string, groups: string[] = ['devs'], query = '') {
  idp.claims = { sub, groups, email: `${sub}@idp.example`, email_verified: true, name: sub };
  const { headers } = await request(`/_latchkey/oidc/sso/login${query}`);
  return { path: `/_latchkey/oidc/sso/callback?${idp.authorize(String(headers.location))}`, cookie: cookieOf(headers, 'latchkey-login') };
} // prettier-ignore
async function loggedIn(sub: string): Promise<string> {
  const { path, cookie } = await begun(sub);
  return cookieOf((await request(path, { headers: { Cookie: cookie } })).headers, 'service.session');
}

/** Each prepares a request that changes something, and returns it. */
const SCENARIOS: Record<string, () => Promise<Parameters<typeof request>>> = {
  'a login that ends the session of another user': async () => {
    const user = await person();
    const Cookie = await login('billing');
    return ['/login', form({ user, password: PASSWORD }, { ...withCode(), Cookie })];
  },
  'a new token': async () => ['/tokens', form({ username: await person(), password: PASSWORD }, withCode())],
  'a first login at a provider': async () => {
    const { path, cookie } = await begun(`new${people++}`, ['devs'], '?fresh=1');
    return [path, { headers: { Cookie: `${cookie}; ${await login('billing')}` } }];
  },
  'a person who lost their role': async () => {
    const sub = `gone${people++}`;
    await loggedIn(sub);
    const { path, cookie } = await begun(sub, []);
    return [path, { headers: { Cookie: cookie } }];
  },
  'a logout by the provider': async () => {
    const sub = `out${people++}`;
    for (let i = 0; i < 2; i++) await loggedIn(sub);
    return ['/_latchkey/oidc/sso/backchannel-logout', form({ logout_token: await idp.logoutToken({ sub }) })];
  },
  'a rotation': async () => ['/tokens/self/rotate', { method: 'POST', headers: { 'Service-Key': await server.token('engineer') } }],
  'two revocations': async () => {
    const made = [await server.create('superuser'), await server.create('superuser')];
    const data = made.map(({ json }) => ({ type: 'token', id: json.id as string }));
    return ['/tokens', { method: 'DELETE', json: { data }, headers: { Cookie: await login('superuser') } }];
  },
  'a suspension': async () => {
    const { id } = (await server.create('superuser')).json as { id: string };
    return [`/tokens/${id}`, { method: 'PATCH', json: { suspended: true }, headers: { Cookie: await login('superuser') } }];
  },
  'one session too many': async () => {
    for (let i = 0; i < 2; i++) await login('user');
    return ['/login', form({ user: 'user@example.com', password: PASSWORD })];
  },
  'the end of other sessions': async () => {
    await login('user');
    return ['/_latchkey/sessions', { method: 'DELETE', headers: { Cookie: await login('user') } }];
  },
  'a logout': async () => ['/logout', { method: 'POST', headers: { Cookie: await login('user') } }],
  'a confirmed password': async () => ['/sudo', form({ password: PASSWORD }, { Cookie: await login('user') })],
}; // prettier-ignore

t.test('each change has its audit entry, whichever store operation fails', async (t) => {
  for (const [what, prepare] of Object.entries(SCENARIOS))
    for (const failure of ['unavailable', 'unconfirmed'] as const) {
      let made = 0;
      for (let failing = 1; ; failing++) {
        plan.failing = 0;
        const [path, sent] = await prepare();
        Object.assign(plan, { failing, failure, calls: 0, failed: '', made: [] });
        const { audit } = await request(path, sent);
        const written = audit.map(({ event }) => String(event)).filter((event) => CHANGES.has(event));
        const at = plan.failed === '' ? 'nothing fails' : `${plan.failed} (${failing}) fails`;
        made = plan.made.length;
        t.same(
          written.filter((event) => plan.made.includes(event)).toSorted(),
          plan.made.toSorted(),
          `${what}: ${failure}, ${at}`,
        );
        const outcomes = new Set(audit.map(({ outcome }) => outcome));
        if (failure === 'unavailable') t.notOk(outcomes.has('unknown'), `${what}: ${at}, and it is certain`);
        if (plan.failed === '') break;
      }
      t.ok(made > 0, `${what}: it changes something`);
    }
});
