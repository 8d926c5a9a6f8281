import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { selfSigned } from '../helpers/certificates.js';
import { startFixture } from '../helpers/fixture.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { needNpmPackages } from '../helpers/packages.mjs';
import { rememberSecret } from '../helpers/secrets.js';
import { startApi } from './upstream.js';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** The host of the vendor's own API, which many clients have built in. */
const VENDOR_HOST = 'api.fastly.com';
/** Writes per user and hour. */
export const WRITES = 40;
const PROGRAMS = join(import.meta.dirname, 'programs');
const RUN_MS = 120_000;

const CONFIG = {
  interface: { vendor: 'Fastly', token_endpoints: 'session_or_token', account_endpoints: true },
  rate_limit: { writes_per_hour: WRITES },
  login: { max_failures: 50 },
};

/** The output of a program and its exit code. */
export interface Ended {
  readonly code: number | null;
  readonly out: string;
}

/** Makes a folder for the files of clients, which may hold secrets. */
export function clientFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-client-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a third-party program to its end. */
export async function runClient(
  program: string,
  args: readonly string[],
  { env }: { readonly env?: NodeJS.ProcessEnv } = {},
): Promise<Ended> {
  const child = spawn(program, args, {
    env: { PATH: process.env['PATH'], ...env },
    timeout: RUN_MS,
  });
  let out = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stdin.end();
  const code = await new Promise<number | null>((done) => child.once('close', done));
  for (const [secret] of out.matchAll(/\blk[0-9A-Za-z]{38}\b/g)) rememberSecret(secret);
  return { code, out };
}

/** A line printed by a library's program. */
export interface Told {
  readonly ok?: any; // oxlint-disable-line typescript/no-explicit-any -- tests look into values of any shape
  readonly error?: { readonly status?: number; readonly body: any; readonly code?: string }; // oxlint-disable-line typescript/no-explicit-any -- as above
}

/** A call of a library: its name and its arguments. */
export type Step = readonly [call: string, ...args: unknown[]];

/**
 * Starts two servers on one store, one of them with TLS, and returns functions that run each kind
 * of client.
 */
export async function startForClients(t: Test) {
  const packages = needNpmPackages(import.meta.dirname);
  const api = await startApi(t);
  const fixture = await startFixture(t, { upstream: api.url, ...CONFIG });
  const folder = temporaryFolder(t);
  const { cert, key } = selfSigned(folder, VENDOR_HOST);
  const listen = { host: '127.0.0.1', port: 0, tls: { cert, key } };
  const store = { type: 'lmdb', path: join(fixture.folder, 'data') };
  const secure = await start(t, writeConfig(folder, { upstream: api.url, ...CONFIG, listen, store }));
  const port = new URL(secure.url).port;
  const home = clientFolder(t);
  const hostsFile = {
    NODE_OPTIONS: `--require ${join(PROGRAMS, 'hosts.cjs')}`,
    NODE_EXTRA_CA_CERTS: cert,
    POINT_HOST: VENDOR_HOST,
    POINT_PORT: port,
  };
  const node = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    runClient(process.execPath, args, { env });
  return {
    ...fixture,
    api,
    /** A folder for the clients' files. */
    home,
    /** Runs the vendor's command line, with its settings in a separate folder. */
    cli: (args: readonly string[], key: string, env: NodeJS.ProcessEnv = {}) =>
      node([join(packages, 'node_modules/@fastly/cli/fastly.js'), ...args], {
        HOME: home,
        // Blocks its check for updates.
        HTTPS_PROXY: 'http://127.0.0.1:9',
        NO_PROXY: '127.0.0.1,localhost',
        FASTLY_API_ENDPOINT: fixture.url,
        // The endpoint that it probes for single sign-on at each start; any JSON will do.
        FASTLY_ACCOUNT_ENDPOINT: fixture.url,
        ...(key === '' ? {} : { FASTLY_API_TOKEN: key }),
        ...env,
      }),
    /** The environment for TLS. */
    tls: { FASTLY_API_ENDPOINT: `https://localhost:${port}`, SSL_CERT_FILE: cert },
    /** Runs a program for which the vendor's host name leads to this machine. */
    byName: (script: string, ...args: string[]) => node([join(packages, 'node_modules', script), ...args], hostsFile),
    /** Makes calls of a library; `by name` if its address is built in. */
    library: async (name: string, key: string, steps: readonly Step[], where: 'by address' | 'by name' = 'by address'): Promise<Told[]> => {
      const env = { API_URL: fixture.url, API_KEY: key, PACKAGES: packages, ...(where === 'by name' ? hostsFile : {}) };
      const { code, out } = await node([join(PROGRAMS, 'run.mjs'), name, JSON.stringify(steps)], env);
      if (code !== 0) throw new Error(`${name} ended with ${code}:\n${out}`);
      return out.trim().split('\n').map((line) => JSON.parse(line) as Told);
    },
  };
} // prettier-ignore
