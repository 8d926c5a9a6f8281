import { spawn } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hash } from '@node-rs/argon2';
import { fetch } from 'undici';
import { stringify } from 'yaml';

const CLI = new URL('../../bin/latchkey.js', import.meta.url).pathname;
const LOGIN = 'a@example.com';
const PASSWORD = 'correct horse battery staple';

/**
 * Starts a server in front of an upstream, with one user.
 *
 * @param {string} folder for its files
 * @param {string} upstream its URL
 * @param {import('undici').Agent} dispatcher carries the requests to the server
 * @param {{ cert: string, key: string } | undefined} certificate of both, if they use TLS
 */
export async function startServer(folder, upstream, dispatcher, certificate) {
  const password_hash = await hash(PASSWORD, { memoryCost: 1024, timeCost: 1, parallelism: 1 });
  const directory = {
    customers: [{ id: 'C1', name: 'One' }],
    users: [{ id: 'U1', customer_id: 'C1', login: LOGIN, name: 'A', role: 'superuser', password_hash }],
  };
  writeFileSync(join(folder, 'directory.yaml'), stringify(directory), { mode: 0o600 });
  const timeouts = { idle_timeout: '2s', response_timeout: '2s' };
  const config = {
    listen: { host: '127.0.0.1', port: 0, tls: certificate },
    admin: { port: 0 },
    directory: { file: './directory.yaml' },
    audit: { to: './audit.jsonl' },
    login: { max_failures: 100, lockout: '1s' },
    upstreams: { api: { url: upstream, tls: certificate && { ca: certificate.cert }, ...timeouts } },
  };
  writeFileSync(join(folder, 'latchkey.yaml'), stringify(config));
  const child = spawn(process.execPath, [CLI, 'serve', '--config', join(folder, 'latchkey.yaml')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  /** @type {string[]} */
  const faults = [];
  let rest = '';
  const ready = new Promise((/** @type {(urls: { listen: string, admin: string }) => void} */ resolve) => {
    child.stdout.on('data', (chunk) => {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (/"level":[56]0/.test(line)) faults.push(line);
        if (line.includes('"msg":"ready"')) resolve(JSON.parse(line));
      }
    });
  });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  void exited.then((code) => faults.push(`the server ended with ${code}`));
  const { listen: url, admin } = await ready;
  /**
   * @param {string} path
   * @param {Record<string, string>} form
   */
  const post = (path, form) =>
    fetch(url + path, { method: 'POST', body: new URLSearchParams(form), dispatcher });
  return {
    url,
    pid: child.pid,
    filesAtStart: readdirSync(`/proc/${child.pid}/fd`).length,
    /** Returns the current gauges and counters, by series. */
    metrics: async () => {
      const text = await (await fetch(`${admin}/metrics`)).text();
      const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
      return new Map(
        lines.map((line) => {
          const end = line.lastIndexOf(' ');
          return [line.slice(0, end), Number(line.slice(end + 1))];
        }),
      );
    },
    /**
     * Returns the secret of a new token. It is undefined while failed logins throttle the correct
     * ones too, since all come from one address, and while a busy machine leaves no time to check
     * passwords, which has the lowest priority.
     */
    token: async () => {
      const answer = await post('/tokens', { username: LOGIN, password: PASSWORD }).catch(() => undefined);
      if (answer === undefined) return undefined;
      const text = await answer.text();
      if (answer.status === 429 || answer.status === 503) return undefined;
      if (answer.status !== 200) throw new Error(`no token was made: ${answer.status} ${text}`);
      return JSON.parse(text).access_token;
    },
    /** Returns the cookie of a new session. */
    session: async () =>
      (await post('/login', { user: LOGIN, password: PASSWORD })).headers.getSetCookie()[0].split(';')[0],
    /** Stops the server and returns the faults that it logged. */
    stop: async () => {
      const found = [...faults];
      child.kill('SIGTERM');
      await exited;
      return found;
    },
  };
}
