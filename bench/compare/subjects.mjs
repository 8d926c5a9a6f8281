// The subjects of a run, each started once, when it is needed first.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onEnd, planCores, temporaryFolder } from '../lib/processes.mjs';
import { progress } from '../lib/output.mjs';
import { startUpstream } from '../lib/upstream.mjs';
import { writeScript } from '../lib/wrk.mjs';
import { newSecrets } from './requests.mjs';

/** Where a run takes place: its folder, cores, upstream and secrets. */
export async function openPlace() {
  const folder = temporaryFolder('bench');
  const { load, measured } = planCores();
  // What this process does by itself, like logging in, is load too.
  spawnSync('taskset', ['-acp', load.join(','), String(process.pid)]);
  const secrets = await newSecrets();
  const keysFile = join(folder, 'keys');
  writeFileSync(keysFile, secrets.keys.join('\n'));
  const upstreamPort = await startUpstream(folder, load);
  return { folder, cores: measured, loadCores: load, upstreamPort, keysFile, progress, ...secrets };
}

/** Starts subjects and keeps what cannot be measured, with the line that fixes it. */
export class Subjects {
  #place;
  #started = new Map();
  notMeasured = new Map();
  versions = new Map();

  constructor(place) {
    this.#place = place;
  }

  /** The started subject; undefined when it can't be measured. */
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

  isStarted({ name }) {
    return this.#started.has(name);
  }

  /** Stops what no other workload needs. */
  async stop(peer) {
    await this.#started.get(peer.name)?.stop();
    this.#started.delete(peer.name);
  }
}

/** For the first answer of a subject, its body included. */
const FIRST_ANSWER_MS = 10_000;

async function firstAnswer(url, request) {
  const answer = await fetch(url, { ...request, signal: AbortSignal.timeout(FIRST_ANSWER_MS) });
  await answer.arrayBuffer();
  return answer;
}

/** Writes the script of a workload for a subject, and has it answer the first request as it must. */
export async function prepareLoad(workload, peer, started, place) {
  const requests = workload.requests(peer, place);
  const name = `${workload.name}-${peer.name.replaceAll(/\W/g, '-')}`;
  const script = writeScript(place.folder, name, requests);
  const [{ method, path, fields, body = 0 }] = requests;
  const url = `http://127.0.0.1:${started.port}${path}`;
  const sent = body === 0 ? undefined : Buffer.alloc(body, 'x');
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
