import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { request as requestPlain } from 'node:http';
import { request as requestTls } from 'node:https';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { certificateIn } from '../lib/certificate.mjs';

const CLI = new URL('../../bin/latchkey.js', import.meta.url).pathname;
const LIVE_MEMORY = new URL('live-memory.mjs', import.meta.url).href;
/**
 * Time for everything to end, in milliseconds: the longest timeout in the configuration below, and
 * a second for cached metrics.
 */
const REST_MS = 12_000;
/** Attempts for a control request to be answered. */
const CONTROLS = 10;
/** Time after which a server counts as unresponsive, in milliseconds. */
const ANSWER_MS = 4_000;
const SILENT = `no answer within ${ANSWER_MS} ms`;
const AT_REST =
  /^latchkey_(?:requests_in_flight|upstream_active_requests|upstream_waiting_requests|websockets|connections)(?:\{[^}]*\})? (?!0$)/;

/**
 * Starts a server without TLS and one with it, both in front of one upstream.
 *
 * @param {string} folder
 * @param {string} upstreamUrl
 * @param {string} key
 */
export async function startServers(folder, upstreamUrl, key) {
  writeFileSync(
    join(folder, 'directory.yaml'),
    stringify({ customers: [{ id: 'C1', name: 'One' }], users: [], legacy_keys: [{ customer_id: 'C1', key }] }),
    { mode: 0o600 },
  );
  const upstreams = {
    api: { url: upstreamUrl, max_connections: 8, max_waiting: 8, wait_timeout: '300ms', response_timeout: '300ms', idle_timeout: '300ms' },
  }; // prettier-ignore
  /**
   * @param {string} name
   * @param {object} listen
   */
  const start = (name, listen) => startServer(folder, name, { listen: { host: '127.0.0.1', port: 0, ...listen }, upstreams });
  return {
    plain: await start('plain', {}),
    tls: await start('tls', { tls: certificateIn(folder) }),
  };
} // prettier-ignore

/**
 * @param {string} folder
 * @param {string} name
 * @param {object} config
 */
async function startServer(folder, name, config) {
  const file = join(folder, `${name}.yaml`);
  const whole = {
    ...config,
    admin: { port: 0 },
    directory: { file: './directory.yaml' },
    store: { type: 'lmdb', path: join(folder, `${name}.store`) },
    limits: { head_timeout: '1s', keep_alive: '1s' },
    default_route: { action: 'api', upstream: 'api' },
  };
  writeFileSync(file, stringify(whole));
  const child = spawn(process.execPath, ['--expose-gc', '--import', LIVE_MEMORY, CLI, 'serve', '--config', file], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let rest = '';
  /** @type {string[]} */
  const faults = [];
  /** @type {{ listen?: string, admin: string }} */
  const begun = { admin: '' };
  child.stderr?.on('data', (chunk) => faults.push(`stderr: ${chunk}`));
  child.stdout?.on('data', (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.includes('"msg":"ready"')) Object.assign(begun, JSON.parse(line));
      if (/"level":[56]0/.test(line)) faults.push(line);
    }
  });
  const exited = new Promise((done) => child.once('exit', done));
  while (begun.listen === undefined) {
    if (child.exitCode !== null) throw new Error(`the server did not start: ${faults.join('\n')}${rest}`);
    await new Promise((wait) => setTimeout(wait, 20));
  }
  const { listen, admin } = begun;
  return {
    admin,
    port: Number(new URL(listen).port),
    /**
     * Returns the MiB in use after a collection. The resident memory of the process would follow
     * its busiest moment instead.
     */
    liveMemory: async () => {
      child.send('memory');
      const [{ liveBytes }] = await once(child, 'message');
      return liveBytes / 2 ** 20;
    },
    check: async (/** @type {string} */ key) => {
      if (child.exitCode !== null || child.signalCode !== null) return [`${name} ended`, ...faults.splice(0)];
      const found = faults.splice(0);
      // An upstream that writes after its responses breaks the next request on that connection.
      let status;
      for (let i = 0; i < CONTROLS && status !== 200 && status !== SILENT; i++) status = await ask(`${listen}/control`, key);
      if (status !== 200) found.push(`${name}: the control request got ${status}`);
      const counted = await counts(name, admin).catch((error) => [`${name}: no metrics: ${error.cause ?? error}`]);
      return [...found, ...counted, ...faults.splice(0)];
    },
    stop: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
} // prettier-ignore

/**
 * Returns negative counts, and counts that are not zero although everything must have ended.
 *
 * @param {string} name
 * @param {string} admin
 */
async function counts(name, admin) {
  /** @type {string[]} */
  let busy = [];
  for (const until = Date.now() + REST_MS; Date.now() < until;) {
    const lines = (await metricsOf(admin)).split('\n');
    const negative = lines.filter((line) => /^latchkey_\S+ -/.test(line));
    if (negative.length > 0) return negative.map((line) => `${name}: ${line}`);
    busy = lines.filter((line) => AT_REST.test(line));
    if (busy.length === 0) return [];
    await new Promise((wait) => setTimeout(wait, 300));
  }
  return busy.map((line) => `${name}: not over: ${line}`);
}

/**
 * Uses a new connection: an idle one may end just as it is used.
 *
 * @param {string} admin
 */
async function metricsOf(admin) {
  const reply = await fetch(`${admin}/metrics`, {
    headers: { Connection: 'close' },
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  return reply.text();
}

/**
 * @param {string} url
 * @param {string} key
 * @returns {Promise<number | string | undefined>} the status, or what was wrong
 */
function ask(url, key) {
  return new Promise((resolve) => {
    const send = url.startsWith('https:') ? requestTls : requestPlain;
    const sent = send(url, { headers: { 'Service-Key': key }, agent: false, rejectUnauthorized: false, timeout: ANSWER_MS }, (res) => {
      res.resume().on('error', () => undefined).on('close', () => resolve(res.complete ? res.statusCode : 'a broken answer'));
    });
    sent.on('timeout', () => sent.destroy(new Error(SILENT))).on('error', (error) => resolve(error.message)).end();
  });
} // prettier-ignore
