// Measures the cost of HTTP/2 and TLS, next to servers that respond by themselves.
import { HOST } from '../lib/certificate.mjs';
import { h2load } from '../lib/h2load.mjs';
import { progress } from '../lib/output.mjs';
import { measureRound } from '../lib/round.mjs';
import { summary } from './measure.mjs';
import { bareTcp } from './peers/encrypted.mjs';
import { latchkey } from './peers/latchkey.mjs';
import { nginxLua } from './peers/nginx.mjs';
import { tcpPipe } from './peers/node.mjs';
import { COMMON } from './requests.mjs';

/** @import { DrivenLoad, Round } from '../lib/round.mjs' */
/** @import { CostRow, Took } from './measure.mjs' */
/** @typedef {typeof HTTP2 & { rate?: number }} How */
/** @import { Peer, Place, StartedPeer, Subjects } from './subjects.mjs' */

/** Connections, and concurrent requests on each, by HTTP version. */
const HTTP2 = { connections: 16, streams: 8, h1: false };
const HTTP1 = { connections: 64, streams: 1, h1: true };
/** Requests per second on each connection: fewer than any subject can answer. */
const PACED = { ...HTTP1, rate: 200 };
const WARM_UP_SECONDS = 5;
/**
 * Factor for the length of a round, which begins with the handshakes of its connections; they
 * should not dominate it.
 */
const TIMES_AS_LONG = 3;
const UNENCRYPTED = new Set([latchkey, bareTcp, tcpPipe, nginxLua].map(({ name }) => name));

/**
 * @param {Peer} peer
 * @param {Place} place
 * @param {How} how
 * @returns {DrivenLoad}
 */
function loadOf({ name }, { keys }, how) {
  const fields = { ...COMMON, 'Service-Key': keys[0] };
  const scheme = UNENCRYPTED.has(name) ? 'http' : 'https';
  return {
    expects: 'ok',
    drive: ({ port, seconds, cores }) =>
      h2load({ ...how, url: `${scheme}://${HOST}:${port}/api/items/42`, port, fields, seconds, cores }),
  };
}

/**
 * Measures the cost of a small GET, always with the same token, over one HTTP version.
 *
 * @param {How} how without `rate`, each response is followed by the next request
 */
const measurer =
  (how) =>
  /**
   * @param {{ title: string }} series
   * @param {Peer[]} chosen
   * @param {Subjects} subjects
   * @param {Place} place
   * @param {Took} took
   * @returns {Promise<CostRow[]>}
   */
  async ({ title }, chosen, subjects, place, { rounds, seconds }) => {
    /** @type {{ name: string, started: StartedPeer, load: DrivenLoad, rounds: Round[] }[]} */
    const loaded = [];
    const cores = { cores: place.loadCores, measuredCores: place.cores };
    for (const peer of chosen) {
      const started = await subjects.get(peer);
      if (started === undefined) continue;
      const load = loadOf(peer, place, how);
      progress(`${title}: warm-up, ${peer.name}`);
      await measureRound(started, load, { ...cores, seconds: WARM_UP_SECONDS });
      loaded.push({ name: peer.name, started, load, rounds: [] });
    }
    for (let round = 1; round <= rounds; round++) {
      for (const { name, started, load, rounds: done } of loaded) {
        progress(`${title}: round ${round} of ${rounds}, ${name}`);
        done.push(await measureRound(started, load, { ...cores, seconds: seconds * TIMES_AS_LONG }));
      }
    }
    return loaded.map(({ name, rounds: done }) => ({ name, ...summary(done) }));
  };

export const measureHttp2 = measurer(HTTP2);
export const measureTls = measurer(HTTP1);
export const measureTlsAtRate = measurer(PACED);
