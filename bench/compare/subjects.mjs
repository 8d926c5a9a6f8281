// The subjects of a run, each started once, on first use.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onEnd, planCores, temporaryFolder } from '../lib/processes.mjs';
import { progress } from '../lib/output.mjs';
import { startUpstream } from '../lib/upstream.mjs';
import { writeScript } from '../lib/wrk.mjs';
import { newSecrets } from './requests.mjs';

/** @import { Started, WrkLoad } from '../lib/round.mjs' */
/** @import { Requests } from './requests.mjs' */
/** @typedef {Awaited<ReturnType<typeof openPlace>>} Place */
/** @typedef {{ name: string, oneKey?: boolean }} Asked with `oneKey` it knows the first key only */
/** @typedef {Started & { stop: () => Promise<void>, log?: string }} StartedPeer */
/**
 * `missing` says what to do before it can be started. Without `checks` it forwards every request.
 *
 * @typedef {Asked & { checks: boolean, onAllCores?: boolean, missing?: () => string | undefined,
 *   version: () => string | undefined, start: (place: Place) => Promise<StartedPeer> }} Peer
 */

/** Prepares the environment of a run: its folder, cores, upstream and secrets. */
export async function openPlace() {
  const folder = temporaryFolder('bench');
  const { load, measured } = planCores();
  // Work of this process itself, like logging in, counts as load, too.
  spawnSync('taskset', ['-acp', load.join(','), String(process.pid)]);
  const secrets = await newSecrets();
  const keysFile = join(folder, 'keys');
  writeFileSync(keysFile, secrets.keys.join('\n'));
  const upstreamPort = await startUpstream(folder, load);
  return { folder, cores: measured, loadCores: load, upstreamPort, keysFile, progress, ...secrets };
}

/** Starts subjects, and records those that cannot be measured, with the command that fixes it. */
export class Subjects {
  #place;
  /** @type {Map<string, StartedPeer>} */
  #started = new Map();
  /** @type {Map<string, string>} */
  notMeasured = new Map();
  /** @type {Map<string, string | undefined>} */
  versions = new Map();

  /** @param {Place} place */
  constructor(place) {
    this.#place = place;
  }

  /**
   * Returns the started subject; undefined if it cannot be measured.
   *
   * @param {Peer} peer
   */
  async get(peer) {
    const { name } = peer;
    if (this.notMeasured.has(name)) return undefined;
    if (!this.#started.has(name)) {
      progress(`starting ${name}`);
      const missing = peer.missing?.();
      if (missing !== undefined) {
        this.notMeasured.set(name, missing);
        return undefined;
      }
      const started = await peer.start(this.#place);
      onEnd(started.stop);
      this.#started.set(name, started);
      this.versions.set(name, peer.version());
    }
    return this.#started.get(name);
  }

  /** @param {Peer} peer */
  isStarted({ name }) {
    return this.#started.has(name);
  }

  /**
   * Stops a subject that no other workload needs.
   *
   * @param {Peer} peer
   */
  async stop(peer) {
    await this.#started.get(peer.name)?.stop();
    this.#started.delete(peer.name);
  }
}

/** Time limit for the first response of a subject, body included, in milliseconds. */
const FIRST_ANSWER_MS = 10_000;

/**
 * @param {string} url
 * @param {RequestInit} request
 */
async function firstAnswer(url, request) {
  const answer = await fetch(url, { ...request, signal: AbortSignal.timeout(FIRST_ANSWER_MS) });
  await answer.arrayBuffer();
  return answer;
}

/**
 * Writes the script of a workload for a subject, and checks the response to the first request.
 *
 * @param {Requests} workload
 * @param {Asked} peer
 * @param {{ port: number, log?: string }} started
 * @param {Place} place
 * @returns {Promise<WrkLoad>}
 */
export async function prepareLoad(workload, peer, started, place) {
  const requests = workload.requests(peer, place);
  const name = `${workload.name}-${peer.name.replaceAll(/\W/g, '-')}`;
  const script = writeScript(place.folder, name, requests);
  const [{ method, path, fields, body = 0 }] = requests;
  const url = `http://127.0.0.1:${started.port}${path}`;
  const sent = body === 0 ? null : Buffer.alloc(body, 'x');
  const answer = await firstAnswer(url, { method, headers: fields, body: sent }).catch((error) => {
    throw new Error(`${peer.name} did not answer (${workload.name})`, { cause: error });
  });
  const expected = workload.expects ?? 200;
  if (answer.status !== expected) {
    const said = readFileSync(started.log ?? '/dev/null', 'utf8').slice(-1_000);
    throw new Error(`${peer.name} answered ${answer.status} instead of ${expected} (${workload.name}): ${said}`);
  }
  const expects = expected === 200 ? 'ok' : 'refused';
  return { script, expects, connections: workload.connections };
} // prettier-ignore
