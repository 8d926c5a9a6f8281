// The sidecars of a run: a build of Latchkey, started as users start it, in front of an upstream
// that reports what it received.
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { hash } from '@node-rs/argon2';
import { stringify } from 'yaml';
import { startLatchkey } from '../lib/latchkey.mjs';
import { freePort } from '../../test/helpers/free-port.mjs';
import { CORES, missingPackages, onEnd } from '../lib/processes.mjs';
import { Program } from './program.mjs';

/** @typedef {Awaited<ReturnType<typeof prepareSidecar>>} Sidecar */
/** @typedef {{ type: string, [setting: string]: unknown }} Store settings of `store` */

export const PASSWORD = 'correct horse battery staple';
/** Number of accounts, each a superuser. */
const USERS = 8;
const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1';
/** Accounts with one-time passwords, in which nothing else changes. */
export const CODE_USERS = ['codes0', 'codes1'];
export const OTP_SECRET = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';
const SEALING_KEY = 'a1'.repeat(32);

/** @param {string} root of a build */
export const cliOf = (root) => join(root, 'bin/latchkey.js');

/** @param {number} index */
export const userAt = (index) => `user${index % USERS}`;
/** @param {number} index */
export const loginAt = (index) => loginOf(userAt(index));

/** @param {string} user */
export const loginOf = (user) => `${user}@example.com`;

/** Starts an upstream that responds with the token id from the identity headers. */
export async function startUpstream() {
  const upstream = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
    res.end(String(req.headers['x-auth-token-id'] ?? ''));
  });
  await once(upstream.listen(0, '127.0.0.1'), 'listening');
  onEnd(() => {
    upstream.close();
    upstream.closeAllConnections();
  });
  return /** @type {import('node:net').AddressInfo} */ (upstream.address()).port;
}

/**
 * As expensive as Latchkey's own hashes, so that it does not rehash them, but with so little memory
 * that they are fast.
 */
export async function directory() {
  const password_hash = await hash(PASSWORD, { memoryCost: 64, timeCost: 736, parallelism: 1 });
  const ids = [...Array.from({ length: USERS }, (_, index) => userAt(index)), ...CODE_USERS];
  const users = ids.map((id) => ({
    id,
    customer_id: 'C1',
    login: loginOf(id),
    name: 'A user',
    role: 'superuser',
    password_hash,
    ...(CODE_USERS.includes(id) ? { otp_secret: OTP_SECRET } : {}),
  }));
  return { customers: [{ id: 'C1', name: 'One' }], users };
}

/**
 * Prepares one sidecar. It uses the same port each time it is started.
 *
 * @param {{ index: number, folder: string, upstreamPort: number, store: Store, root: string,
 *   directory: object, workers?: number, hasClock: boolean }} what `root` contains `dist`;
 *   `hasClock`: its wall clock can be set
 */
export async function prepareSidecar(what) {
  const { index, folder, upstreamPort, store, root, directory, workers = 1, hasClock } = what;
  const name = `sidecar-${index}`;
  const port = await freePort();
  const config = {
    listen: { host: '127.0.0.1', port },
    store: store.type !== 'lmdb' ? { ...store, sealing_key: SEALING_KEY } : store,
    directory: { file: './directory.yaml' },
    workers,
    sessions: { idle_timeout: '12h', absolute_timeout: '24h' },
    login: { max_failures: 100, lockout: '1s' },
  };
  const clock = hasClock ? makeClock(join(folder, `${name}.clock`)) : { env: {}, set: () => undefined };
  const program = new Program(name, () =>
    startLatchkey({
      folder,
      name,
      cores: CORES,
      upstreamPort,
      config,
      cli: cliOf(root),
      env: clock.env,
      fill: async (data) =>
        writeFileSync(join(data, '../directory.yaml'), stringify(directory), { mode: 0o600 }),
    }),
  );
  return Object.assign(program, {
    index,
    url: `http://127.0.0.1:${port}`,
    setClock: clock.set,
    cli: cliOf(root),
    config: join(folder, name, 'latchkey.yaml'),
  });
}

/** @param {string} file */
function makeClock(file) {
  const missing = missingPackages(() => existsSync(FAKETIME), 'faketime', 'libfaketime');
  if (missing !== undefined) throw new Error(`libfaketime is missing: ${missing}`);
  /** @param {string} offset */
  const set = (offset) => writeFileSync(file, offset);
  set('+0s');
  return {
    set,
    env: {
      LD_PRELOAD: FAKETIME,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  };
}
