// The changes of `--more`: suspensions, rotations, and those of whole accounts. Some are made by
// commands that run beside the sidecars.
import { execFile } from 'node:child_process';
import { Secret, TOTP } from 'otpauth';
import { loginOf, OTP_SECRET, PASSWORD } from './sidecars.mjs';

/** @import { Request } from './clients.mjs' */
/** @import { Asked, Credential } from './workload.mjs' */
/** @typedef {'lock' | 'unlock' | 'set-password'} Command */
/**
 * A request that changes something, and the operation that the history records for it.
 *
 * @typedef {{ operation: Asked, path: string, request: Request }} Change
 */

/** Operations per second at a `--rate` of 1. */
export const MORE_RATES = {
  suspend: 1,
  resume: 1.5,
  rotate: 1.5,
  'end-others': 0.3,
  command: 0.25,
  code: 0.1,
};
/**
 * Overlaps of rotations, in seconds. An overlap ends by the clock of each sidecar, so where clocks
 * are set there is none.
 */
export const OVERLAPS = { right: [0, 0, 2], wrong: [0] };
const COMMAND_TIMEOUT_MS = 30_000;
/** Some commands are killed within this time, in milliseconds. */
export const COMMAND_KILLED_MS = 800;

/**
 * @param {'suspend' | 'resume'} op
 * @param {Credential} token
 * @param {Credential} session that changes it
 * @param {number} sidecar
 * @returns {Change}
 */
export function limitChange(op, { name, kind, id, user }, session, sidecar) {
  return {
    operation: { op, kind, credential: name, id, user, sidecar, by: session.name },
    path: `/tokens/${id}`,
    request: { method: 'PATCH', headers: session.headers, json: { suspended: op === 'suspend' } },
  };
}

/**
 * @param {Credential} token
 * @param {Credential | undefined} session that rotates it; undefined: the token itself
 * @param {number} overlap seconds
 * @param {number} sidecar
 * @returns {Change}
 */
export function rotation({ name, kind, id, user, headers }, session, overlap, sidecar) {
  return {
    operation: {
      op: 'rotate',
      kind,
      credential: name,
      id,
      user,
      sidecar,
      overlap: overlap * 1_000,
      ...(session === undefined ? {} : { by: session.name }),
    },
    path: session === undefined ? '/tokens/self/rotate' : `/tokens/${id}/rotate`,
    request: {
      method: 'POST',
      headers: session?.headers ?? headers,
      form: { overlap: String(overlap) },
    },
  };
}

/**
 * @param {Credential} session whose user's other sessions end
 * @param {number} sidecar
 * @returns {Change}
 */
export function endOthers({ name, user, headers }, sidecar) {
  return {
    operation: { op: 'end-others', kind: 'session', credential: null, id: null, user, sidecar, by: name },
    path: '/_latchkey/sessions',
    request: { method: 'DELETE', headers },
  };
}

const CODE_SECONDS = 30;
const totp = new TOTP({ digits: 6, period: CODE_SECONDS, secret: Secret.fromBase32(OTP_SECRET) });

/**
 * Uses a one-time password: once for a session, once for a token, at each sidecar. In the history,
 * the code is the credential, named after its user and time step.
 *
 * @param {string} user
 * @param {number} sidecars
 * @param {number} late time steps by which the code is late
 * @returns {Change[]}
 */
export function codeUses(user, sidecars, late) {
  const step = Math.floor(Date.now() / 1_000 / CODE_SECONDS) - late;
  const headers = { 'Service-OTP': totp.generate({ timestamp: step * CODE_SECONDS * 1_000 }) };
  return Array.from({ length: sidecars * 2 }, (_, index) => {
    const isLogin = index % 2 === 0;
    const sidecar = index >> 1;
    const form = { [isLogin ? 'user' : 'username']: loginOf(user), password: PASSWORD };
    return {
      operation: { op: 'code', kind: 'session', credential: `${user}.${step}`, id: null, user, sidecar },
      path: isLogin ? '/login' : '/tokens',
      request: { method: 'POST', headers, form },
    };
  });
}

/**
 * Runs a command that changes an account.
 *
 * @param {Command} command
 * @param {string} user
 * @param {{ cli: string, config: string }} where
 * @param {number} killedAfter milliseconds until it is killed; 0: never
 * @returns {Promise<number | null>} what a sidecar would have answered: 200, or 503 if it failed
 */
export async function runCommand(command, user, { cli, config }, killedAfter) {
  const args = [cli, 'user', command, user, '--config', config];
  if (command === 'set-password') args.push('--password-file', '-');
  return new Promise((resolve) => {
    const timeout = killedAfter > 0 ? killedAfter : COMMAND_TIMEOUT_MS;
    const child = execFile(process.execPath, args, { timeout, killSignal: 'SIGKILL' }, (error) =>
      resolve(error === null ? 200 : 503),
    );
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(PASSWORD);
  });
}
