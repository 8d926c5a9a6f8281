// Defines the suite: the files of each tier, and which of them share a process.
import { readdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';

/** @import { Task } from './bundle.mjs' */

const ROOT = resolve(import.meta.dirname, '../..');

/**
 * Path prefixes of the files that share a process. They load in a fraction of the time, and
 * whatever a file starts ends with it.
 */
const TOGETHER = Object.entries({
  'unit tests of endpoints': ['endpoints/'],
  'unit tests of requests': ['config/config.', 'config/restart.', 'gate/', 'pipeline/'],
  'unit tests of policies': ['policy/', 'policy-diff/'],
  'unit tests of accounts': ['accounts/', 'store/records.'],
  'unit tests of bytes': ['http/', 'http1/', 'observe/'],
  'unit tests of connections': ['listeners/', 'upstream/'],
  'servers: tokens and accounts': acceptance(
    'account',
    'apply',
    'declared-tokens',
    'expect',
    'guessing',
    'login',
    'mint',
    'mistyped',
    'quotas',
    'rate-limit',
    'rotation',
    'token-limits',
    'token-rates',
    'tokens',
  ),
  'servers: requests': acceptance(
    'bearer',
    'body-on-read',
    'bound-assertions',
    'cors',
    'gate',
    'identity',
    'jwt-issuers',
    'own-cookies',
    'proxy',
    'refusals',
    'request-bodies',
    'shared-origin',
    'tolerance',
    'websocket',
  ),
  'servers: entrances and upstreams': acceptance(
    'decision',
    'exactness',
    'grpc',
    'grpc-wire',
    'http2',
    'http2-upstreams',
    'openapi',
    'page',
    'unix-upstreams',
    'upstream-tls',
    'upstreams',
  ),
  'servers: observed': acceptance('audit', 'logs', 'masked', 'metrics', 'oidc', 'oidc-fleet', 'admin-guard'),
  'commands and servers': acceptance(
    'backup',
    'check',
    'config-secrets',
    'explain',
    'init',
    'policy-diff',
    'restore',
    'special-files',
    'start-up',
    'store',
    'unwritable-output',
    'usage',
  ),
  'servers: stored accounts': acceptance('accepted', 'doctor', 'owner-changes', 'policy-shadow', 'rehash'),
  'servers: other entrances': acceptance('decision-grpc', 'demo', 'tls', 'tracing'),
  'servers: processes': acceptance('hashing', 'process', 'restart', 'signals'),
  'servers: changes': acceptance('fleet', 'operate', 'receipts', 'reload', 'webhooks'),
  stores: [
    'cached',
    'damaged',
    'endings',
    'lmdb',
    'login-commands',
    'revocation-file',
    'same-answers',
    'texts',
    'transfer',
  ].map((name) => `store/${name}.`),
  'stores in Redis': ['redis', 'redis-answers', 'redis-connections', 'redis-recovery'].map(
    (name) => `store/${name}.`,
  ),
  examples: ['examples/'],
  clients: ['clients/', 'docs/in-front-of.', 'docs/troubleshooting.'],
  doctor: ['acceptance/doctor-proxies.', 'doctor/'],
  'documents and charts': ['docs/docs.', 'docs/project.', 'helm/', 'image/'],
  'servers and hostile peers': [
    'differential',
    'inputs',
    'peers',
    'reset-clients',
    'routers',
    'upstream-programs',
  ].map((name) => `hostile/${name}.`),
  'servers and broken bodies': [
    'broken-bodies',
    'broken-responses',
    'broken-tunnels',
    'cut',
    'mixed-bodies',
  ].map((name) => `hostile/${name}.`),
  'pages in browsers': ['cors', 'layout', 'service-workers'].map((name) => `browser/${name}.`),
  'the page in browsers': ['oidc', 'sessions', 'tokens'].map((name) => `browser/${name}.`),
  'servers and broken machines': ['failover', 'log-output', 'machine', 'redis', 'workers'].map(
    (name) => `faults/${name}.`,
  ),
  'servers and lost links': [
    'clients',
    'damaged-records',
    'leaving-http2',
    'redis-changes',
    'redis-link',
  ].map((name) => `faults/${name}.`),
  'servers and attacks': ['attack-cases', 'held-requests', 'http2', 'http2-frames'].map(
    (name) => `hostile/${name}.`,
  ),
  'servers and hostile bytes': [
    'entrances',
    'malformed',
    'names',
    'pipelining',
    'service',
    'unread-body',
    'upstreams',
  ].map((name) => `hostile/${name}.`),
  'servers under load': ['closing', 'counts', 'early-answers', 'endings', 'held-open'].map(
    (name) => `faults/${name}.`,
  ),
  'servers and slow peers': ['leaving.', 'streams', 'upstreams', 'waits', 'websockets'].map(
    (name) => `faults/${name}`,
  ),
  'parts of servers': [
    'expiring-tokens',
    'membership',
    'messages',
    'reload',
    'retiring',
    'store-readiness',
    'upgrade',
    'webhooks',
    'worker-counts',
  ]
    .map((name) => `server/${name}.`)
    .concat('webhooks/', 'bench/'),
  'unit tests of values': ['commands/', 'domain/', 'files/', 'net/', 'properties/', 'ui/', 'verify/'],
});

/** @param {string[]} names */
function acceptance(...names) {
  return names.map((name) => `acceptance/${name}.`);
}

/** Path prefixes of the files in each tier. */
const TIERS = new Map(
  Object.entries({
    unit: TOGETHER.filter(([name]) => name.startsWith('unit')).flatMap(([, starts]) => starts),
    e2e: ['acceptance/', 'browser/', 'clients/', 'docs/', 'examples/', 'helm/', 'image/'],
    resilience: ['bench/', 'faults/', 'server/', 'store/', 'webhooks/'],
    security: ['config/secrets.', 'doctor/', 'hostile/'],
    nightly: ['nightly/'],
  }),
);

/** @param {string[]} names tiers and files; empty for all files */
export function filesOf(names) {
  const all = testFiles();
  const chosen = names.flatMap((name) => {
    const starts = TIERS.get(name);
    if (starts === undefined) return [relative(join(ROOT, 'test'), resolve(name))];
    return beginningWith(starts, all);
  });
  const unknown = chosen.find((file) => !all.includes(file));
  if (unknown !== undefined) throw new Error(`test/${unknown} is no test file, and no tier of ${[...TIERS.keys()].join(', ')}`);
  return names.length === 0 ? all.filter((file) => !file.startsWith('nightly/')) : [...new Set(chosen)];
} // prettier-ignore

/**
 * Groups files into tasks. Files share a process only if all of the group are to run; a file named
 * alone runs by itself.
 *
 * @param {string[]} files
 * @returns {Task[]}
 */
export function tasksOf(files) {
  const all = testFiles();
  const shared = TOGETHER.map(([name, starts]) => ({ name, files: beginningWith(starts, all) }));
  const tasks = shared.filter((task) => task.files.every((file) => files.includes(file)));
  const alone = files.filter((file) => !tasks.some((task) => task.files.includes(file)));
  return [...tasks, ...alone.map((file) => ({ name: file, files: [file] }))];
}

function testFiles() {
  const names = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith('.test.ts')).toSorted();
}

/**
 * @param {string[]} starts
 * @param {string[]} files
 */
function beginningWith(starts, files) {
  return files.filter((file) => starts.some((start) => file.startsWith(start)));
}
