import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hash } from '@node-rs/argon2';
import { stringify } from 'yaml';
import { startStrictUpstream } from '../../test/helpers/wire.mjs';

/** @typedef {{ user: string, secret: string }} Secret with the user it belongs to */
/** @typedef {Record<string, Secret>} Secrets by the names that stand for them */
/** @typedef {{ lines: string[], errors: string }} Log */
/** @typedef {Awaited<ReturnType<typeof startSubject>>} Subject */

const CLI = new URL('../../bin/latchkey.js', import.meta.url).pathname;
/** One of so many requests ends its connection to the upstream, so that the next one opens another. */
const CLOSES = 4;
const PASSWORD = 'correct horse battery staple';
const USERS = {
  superuser: 'superuser',
  engineer: 'engineer',
  billing: 'billing',
  other: 'superuser',
  control: 'superuser',
};

/** Starts the server under test in front of a strict upstream, with the credentials for inputs. */
export async function startSubject() {
  const upstream = await startStrictUpstream({
    closesAfter: ({ target, fields }) => (target.length + fields.length) % CLOSES === 0,
  });
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-fuzz-'));
  const config = join(folder, 'latchkey.yaml');
  const password_hash = await hash(PASSWORD, { memoryCost: 1024, timeCost: 1, parallelism: 1 });
  const users = Object.entries(USERS).map(([id, role]) => ({
    id, customer_id: 'C1', login: `${id}@example.com`, name: id, role, password_hash,
  })); // prettier-ignore
  writeFileSync(
    join(folder, 'directory.yaml'),
    stringify({
      customers: [{ id: 'C1', name: 'One' }],
      services: ['SVC1', 'SVC2'].map((id) => ({ id, customer_id: 'C1', name: id })),
      users,
    }),
    { mode: 0o600 },
  );
  writeFileSync(
    config,
    stringify({
      listen: { host: '127.0.0.1', port: 0 },
      admin: { port: 0 },
      directory: { file: './directory.yaml' },
      // Made-up logins must not lock out the real one.
      login: { max_failures: 100, lockout: '1s' },
      upstream: upstream.url,
      // The subject is how bodies are framed, not where they are allowed.
      default_route: { body_on_read: 'allow' },
    }),
  );
  /** @type {string[]} */
  const lines = [];
  let errors = '';
  let rest = '';
  const child = spawn(process.execPath, [CLI, 'serve', '--config', config], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stderr.on('data', (chunk) => (errors += chunk));
  child.stdout.on('data', (chunk) => {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
  });
  const exited = new Promise((done) => child.once('exit', done));
  let ready;
  while (ready === undefined) {
    if (child.exitCode !== null) throw new Error(`the server did not start: ${lines.join('\n')}${errors}`);
    await new Promise((wait) => setTimeout(wait, 20));
    ready = lines.find((line) => line.includes('"msg":"ready"'));
  }
  const { listen } = JSON.parse(ready);
  const subject = {
    url: listen,
    port: Number(new URL(listen).port),
    upstream,
    secrets: /** @type {Secrets} */ ({}),
    alive: () => child.exitCode === null && child.signalCode === null,
    /** Returns what was logged since the last call, and what was written to stderr. */
    takeLog: () => ({ lines: lines.splice(0), errors }),
    stop: async () => {
      child.kill('SIGKILL');
      await exited;
      upstream.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await renew(subject);
  subject.takeLog();
  upstream.reset();
  return subject;
}

/**
 * Recreates credentials that are missing or no longer valid: inputs revoke tokens and end sessions.
 *
 * @param {{ url: string, secrets: Secrets }} subject
 */
export async function renew(subject) {
  /**
   * @typedef {{ user: string, services?: string, probe: (secret: string) => Record<string, string>
   *   }} Wanted
   */
  /** @type {Record<string, Wanted>} */
  const wanted = {
    TOKEN: { user: 'superuser', probe: (secret) => ({ 'Service-Key': secret }) },
    LIMITED: { user: 'engineer', services: 'SVC1', probe: (secret) => ({ 'Service-Key': secret }) },
    SESSION: { user: 'billing', probe: (secret) => ({ Cookie: `service.session=${secret}` }) },
    CONTROL: { user: 'control', probe: (secret) => ({ 'Service-Key': secret }) },
  };
  for (const [name, { user, services, probe }] of Object.entries(wanted)) {
    const held = subject.secrets[name];
    if (held !== undefined) {
      const reply = await fetch(`${subject.url}/service/SVC1`, { headers: probe(held.secret) });
      await reply.arrayBuffer();
      if (reply.status === 200) continue;
    }
    subject.secrets[name] = {
      user,
      secret: name === 'SESSION' ? await login(subject, user) : await create(subject, user, services),
    };
  }
}

/**
 * @param {{ url: string }} subject
 * @param {string} user
 * @param {string} [services]
 * @returns {Promise<string>}
 */
async function create(subject, user, services) {
  const body = new URLSearchParams({
    username: `${user}@example.com`,
    password: PASSWORD,
    ...(services ? { services } : {}),
  });
  const reply = await fetch(`${subject.url}/tokens`, { method: 'POST', body });
  const { access_token: secret } = /** @type {{ access_token?: string }} */ (await reply.json());
  if (secret === undefined) throw new Error(`no token for ${user}: ${reply.status}`);
  return secret;
}

/**
 * @param {{ url: string }} subject
 * @param {string} user
 */
async function login(subject, user) {
  const body = new URLSearchParams({ user: `${user}@example.com`, password: PASSWORD });
  const reply = await fetch(`${subject.url}/login`, { method: 'POST', body });
  const secret = /^service\.session=([^;]+)/.exec(reply.headers.get('set-cookie') ?? '')?.[1];
  if (secret === undefined) throw new Error(`no session for ${user}: ${reply.status}`);
  return secret;
}
