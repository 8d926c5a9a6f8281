// Defines the workloads and their subjects.
import { newKeys } from '../lib/records.mjs';
import { SIZES } from '../lib/upstream.mjs';
import { measureHttp2, measureTls, measureTlsAtRate } from './encrypted.mjs';
import { measureLatency, measureStorm } from './latency.mjs';
import { measureWorkloads } from './measure.mjs';
import { caddyForwardAuth, caddyMatcher } from './peers/caddy.mjs';
import {
  bareHttp2,
  bareTcp,
  bareTls,
  caddyTls,
  http2Pipe,
  latchkeyTls,
  nginxTls,
  tlsPipe,
} from './peers/encrypted.mjs';
import { haproxy } from './peers/haproxy.mjs';
import { latchkey, latchkeyOn } from './peers/latchkey.mjs';
import { nginxAuthRequest, nginxLua } from './peers/nginx.mjs';
import { bareCheck, bareUndici, fastify, fastProxy, httpProxy, tcpPipe } from './peers/node.mjs';
import { asking, manyRoutes, millionTokens, ROUTES, workers } from './peers/special.mjs';
import { COMMON, get, KEYS, TOKEN_REQUESTS, withKey } from './requests.mjs';

/** @import { Requests } from './requests.mjs' */
/** @import { CostRow, Took } from './measure.mjs' */
/** @import { WaitRow } from './latency.mjs' */
/** @import { Peer, Place, Subjects } from './subjects.mjs' */
/**
 * @typedef {{ name: string, title: string, subjects: Peer[], rounds?: 'all', seconds?: 'all' }}
 *   Named
 */
/** @typedef {Named & Requests} Workload */
/**
 * Measured by a function of its own.
 *
 * @typedef {Named & { workloads?: Workload[], measure: (series: Series, chosen: Peer[], subjects:
 *   Subjects, place: Place, took: Took) => Promise<CostRow[] | WaitRow[]> }} Series
 */

/**
 * @param {number} bytes
 * @returns {Requests['requests']}
 */
const post = (bytes) => (_peer, place) => [
  { method: 'POST', path: '/take', fields: { ...COMMON, 'Service-Key': place.keys[0] }, body: bytes },
];
/**
 * @param {string} file
 * @returns {Requests['requests']}
 */
const download = (file) => (_peer, place) => [withKey(`/files/${file}`)(place.keys[0])];
/** @param {string} key */
const wrongChecksum = (key) => `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`;

/** @type {Peer[]} */
const EVERYBODY = [
  latchkey,
  latchkeyOn(24),
  latchkeyOn(26),
  tcpPipe,
  bareCheck,
  bareUndici,
  fastProxy,
  fastify,
  httpProxy,
  caddyMatcher,
  caddyForwardAuth,
  nginxLua,
  nginxAuthRequest,
  haproxy,
];
const WITH_A_CHECK = EVERYBODY.filter(({ checks, name }) => checks && !name.includes(', Node'));
/** @type {Peer[]} */
const CARRIERS = [latchkey, tcpPipe, bareUndici, httpProxy, caddyMatcher, nginxLua];

/** @type {Workload} */
const TOKEN = {
  ...TOKEN_REQUESTS,
  title: 'Small GET with a token',
  subjects: EVERYBODY,
  rounds: 'all',
  seconds: 'all',
};

/** @type {Workload} */
const UNKNOWN = {
  name: 'unknown',
  title: '401: a made-up token of the right form',
  subjects: WITH_A_CHECK,
  expects: 401,
  requests: () => newKeys(KEYS).map(withKey('/api/items/42')),
};

/**
 * Rows of one table, so they are measured in turn.
 *
 * @type {Workload[]}
 */
const OWN = [
  TOKEN,
  {
    name: 'session',
    title: 'Small GET with a session',
    subjects: [latchkey],
    requests: (_peer, { sessionIds }) => sessionIds.map((id) => get('/api/items/42', { Cookie: `service.session=${id}` })),
  },
  {
    name: 'routes',
    title: 'Small GET with a token, 1,000 routes',
    subjects: [manyRoutes],
    requests: (_peer, { keys }) => keys.map((key, index) => withKey(`/part${index % ROUTES}/items/42`)(key)),
  },
  {
    name: 'million',
    title: 'Small GET with a token, each of a million tokens for the first time',
    subjects: [millionTokens],
    requests: () => millionTokens.keys.map(withKey('/api/items/42')),
  },
  {
    name: 'scope',
    title: '403: a token whose scope is too small',
    subjects: [latchkey],
    expects: 403,
    requests: (_peer, { limitedKeys }) => limitedKeys.map(withKey('/api/items/42')),
  },
  UNKNOWN,
  {
    name: 'malformed',
    title: '401: a token whose checksum is wrong',
    subjects: [latchkey],
    expects: 401,
    requests: () => newKeys(KEYS).map((key) => withKey('/api/items/42')(wrongChecksum(key))),
  },
]; // prettier-ignore

/**
 * The workloads. Each runs on its subjects in turn, for half of the rounds and seconds unless it
 * says `all`.
 *
 * @type {(Workload | Series)[]}
 */
export const WORKLOADS = [
  TOKEN,
  {
    name: 'latency',
    title: 'Small GET with a token, at the same rate for everybody',
    subjects: [latchkey, bareUndici, httpProxy, caddyMatcher, nginxLua, haproxy],
    measure: measureLatency,
    rounds: 'all',
    seconds: 'all',
  },
  {
    name: 'storm',
    title: 'Small GET with a token, while people log in',
    subjects: [latchkey],
    measure: measureStorm,
    seconds: 'all',
  },
  {
    name: 'own',
    title: 'What a request costs Latchkey',
    subjects: [latchkey, manyRoutes, millionTokens],
    workloads: OWN,
    measure: measureWorkloads,
    rounds: 'all',
  },
  UNKNOWN,
  ...Object.entries(SIZES).flatMap(([file, bytes]) => {
    const [size, connections] = bytes > 1e6 ? ['10 MiB', 4] : ['64 KiB', 64];
    return [
      { name: `down-${file}`, title: `${size} down`, subjects: CARRIERS, connections, requests: download(file) },
      { name: `up-${file}`, title: `${size} up`, subjects: CARRIERS, connections, requests: post(bytes) },
    ];
  }),
  {
    name: 'http2',
    title: 'Small GET with a token, over HTTP/2 and TLS',
    subjects: [bareHttp2, http2Pipe, latchkeyTls, caddyTls, nginxTls],
    measure: measureHttp2,
    rounds: 'all',
    seconds: 'all',
  },
  {
    name: 'tls',
    title: 'Small GET with a token, over HTTP/1.1 with TLS and without',
    subjects: [bareTcp, bareTls, latchkey, latchkeyTls, nginxTls],
    measure: measureTls,
    rounds: 'all',
    seconds: 'all',
  },
  {
    name: 'tls-rate',
    title: 'Small GET with a token, over HTTP/1.1 with TLS and without, at the same rate',
    subjects: [bareTcp, bareTls, tcpPipe, tlsPipe, latchkey, latchkeyTls, nginxLua, nginxTls],
    measure: measureTlsAtRate,
    rounds: 'all',
    seconds: 'all',
  },
  {
    name: 'workers',
    title: 'Small GET with a token, on all cores at once with the load',
    subjects: workers,
    requests: (_peer, place) => place.keys.map(withKey('/api/items/42')),
  },
  {
    name: 'asked',
    title: 'Small GET with a token, Latchkey asked by another proxy',
    subjects: asking,
    requests: (_peer, place) => place.keys.map(withKey('/api/items/42')),
  },
]; // prettier-ignore

/**
 * Finds a workload with requests by its name.
 *
 * @param {string} name
 */
export function findWorkload(name) {
  return [...WORKLOADS, ...OWN].filter((each) => 'requests' in each).find((each) => each.name === name);
}
