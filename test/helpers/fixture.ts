import { ROUTES } from '../../src/config/schema/policy.js';
import type { Server } from 'node:http';
import { hash } from '@node-rs/argon2';
import { Secret, TOTP } from 'otpauth';
import { type Running, type StartOptions, start, temporaryFolder, writeConfig } from './latchkey.js';
import { rememberSecret } from './secrets.js';
import { type Received, type Reply, send, type Sent, startUpstream } from './http.js';

export const PASSWORD = 'correct horse battery staple';
export const OTP_SECRET = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';
export const LEGACY_KEY = 'my-old/key 1:2';
for (const secret of [PASSWORD, OTP_SECRET, LEGACY_KEY]) rememberSecret(secret);
const OPEN_HASH = { memoryCost: 1024, timeCost: 1, parallelism: 1 };

/** Returns the one-time password for a time, computed independently of the server's code. */
export function otpAt(ms: number): string {
  const totp = new TOTP({ secret: Secret.fromBase32(OTP_SECRET), algorithm: 'SHA1', digits: 6, period: 30 });
  return totp.generate({ timestamp: ms });
}

/**
 * Users of every role in C1, one with two factors, one locked, and a superuser of C2. A user's id
 * is the part before the `@`.
 */
export async function directory() {
  const password_hash = await hash(PASSWORD, OPEN_HASH);
  const user = (id: string, role: string, more: object = {}) => ({
    id,
    customer_id: 'C1',
    login: `${id}@example.com`,
    name: id,
    role,
    password_hash,
    ...more,
  });
  return {
    customers: [
      { id: 'C1', name: 'One' },
      { id: 'C2', name: 'Two' },
    ],
    services: [
      { id: 'SVC1', customer_id: 'C1', name: 'www' },
      { id: 'SVC2', customer_id: 'C1', name: 'shop' },
    ],
    users: [
      user('superuser', 'superuser'),
      user('billing', 'billing'),
      user('engineer', 'engineer'),
      user('user', 'user'),
      user('twofactor', 'superuser', { otp_secret: OTP_SECRET }),
      user('locked', 'superuser', { locked: true }),
      user('other', 'superuser', { customer_id: 'C2' }),
    ],
    legacy_keys: [{ customer_id: 'C1', key: LEGACY_KEY }],
  };
}

/** A running server in front of a real upstream, with shortcuts to use it. */
export interface Fixture {
  readonly server: Running;
  readonly url: string;
  readonly upstream: { readonly url: string; readonly received: Received[]; readonly server: Server };
  readonly folder: string;
  readonly configFile: string;
  readonly login: (user: string) => Promise<string>;
  readonly create: (user: string, params?: Record<string, string> | URLSearchParams) => Promise<Reply>;
  /** Creates a token and returns its secret. */
  readonly token: (user: string, params?: Record<string, string> | URLSearchParams) => Promise<string>;
}

/** The built-in routes, and `/status` for everybody. */
export const OPEN_STATUS = [...ROUTES, { path: '/status', auth: 'none' as const }];

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** Starts a server with the fixture directory. */
export async function startFixture(
  t: Test,
  config: object = {},
  options: StartOptions = {},
): Promise<Fixture> {
  const folder = temporaryFolder(t);
  const upstream = await startUpstream(t);
  const configFile = writeConfig(folder, { upstream: upstream.url, ...config }, await directory());
  const server = await start(t, configFile, options);
  return { ...client(server.url, server.stdout), server, upstream, folder, configFile };
}

/** Shortcuts for the server at a URL. */
export function client(url: string, log?: () => string) {
  return { url, ...shortcuts((path, sent) => send(url, path, sent), log) };
}

/**
 * Shortcuts to log in and to create tokens, independent of how requests are sent.
 *
 * @param log the server's log, whose warnings are shown when a shortcut fails
 */
export function shortcuts(request: (path: string, sent: Sent) => Promise<Reply>, log = () => '') {
  const warnings = () => log().split('\n').filter((line) => /"level":[4-6]0/.test(line)).slice(-5).join('\n'); // prettier-ignore
  const unexpected = (missing: string, { status, text }: Reply) =>
    new Error(`no ${missing}: ${status} ${text}\n${warnings()}`);
  const create = (user: string, params: Record<string, string> | URLSearchParams = {}) => {
    const body = new URLSearchParams(params);
    body.set('username', `${user}@example.com`);
    body.set('password', PASSWORD);
    return request('/tokens', { body });
  };
  return {
    create,
    token: async (user: string, params: Record<string, string> | URLSearchParams = {}) => {
      const reply = await create(user, params);
      if (reply.status !== 200) throw unexpected('token', reply);
      return reply.json.access_token as string;
    },
    login: async (user: string) => {
      const body = new URLSearchParams({ user: `${user}@example.com`, password: PASSWORD });
      const reply = await request('/login', { body });
      const [cookie] = reply.headers['set-cookie'] ?? [];
      if (cookie === undefined) throw unexpected('session', reply);
      return cookie.split(';', 1)[0] ?? '';
    },
  };
}
