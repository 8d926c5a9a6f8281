// Attributes each sample of a CPU profile to a stage of the pipeline or to Node.

/** @import { AllocationNode } from '../lib/inspector.mjs' */
/**
 * @typedef {Map<string, { own: number, called: number }>} Rows ms in the row's own files, and in
 *   Node's that they called
 */
/**
 * @typedef {Record<number, import('node:inspector').Runtime.CallFrame>} Frames by the id of their
 *   node
 */
/** @typedef {Map<number, number>} Parents the id of the caller of each node */

/** The rows of the table in the order of a request, and what each of them covers. */
export const STAGES = {
  receive: 'Node reads the socket; the request is parsed and its objects are made',
  pipeline: 'the request handler: its state, its id, the calls between stages',
  head: 'the fields in one pass, the path in its one form, the client',
  authenticate: 'the form of the credential, its SHA-256, and whether it is still valid',
  store: 'the look-up in the store, and writing last uses',
  authorize: 'route, action, role, scope, service',
  identity: 'the headers that identify the user to the upstream',
  forward: 'request and response headers, retries and timeouts',
  upstream: 'the request to the upstream is built, and its answer parsed',
  send: 'system calls for what was written in one turn of the event loop, to clients and upstreams',
  answer: "Latchkey's own answers: refusals",
  metrics: 'counters and histograms of the request',
  log: 'the line in the access log',
  other: 'everything else of Latchkey and its libraries',
  node: "Node's own work: timers, ticks, streams that no stage called",
  gc: 'garbage collection on the main thread',
  program: 'native code outside any function: the event loop, system calls of libuv',
};

/**
 * The first match wins. Files of `domain` and of the codec belong to their callers.
 *
 * @type {[pattern: RegExp, row: string | undefined][]}
 */
const OWNERS = [
  [/\/dist\/net\/socket\.js$/, 'send'],
  [/\/dist\/domain\/secret\.js$/, 'authenticate'],
  [/\/dist\/http\/(?:replies|write-reply)\.js$/, 'answer'],
  [/\/dist\/http\//, 'head'],
  [/\/dist\/gate\/authenticate\.js$|\/dist\/accounts\//, 'authenticate'],
  [/\/dist\/gate\/identity\.js$/, 'identity'],
  [/\/dist\/gate\/|\/dist\/policy\//, 'authorize'],
  [/\/dist\/store\/|\/node_modules\/(?:lmdb|msgpackr|ordered-binary|weak-lru-cache|lru-cache|ioredis)\//, 'store'],
  [/\/dist\/upstream\/(?:connection|upstream-request)\.js$/, 'upstream'],
  [/\/dist\/listeners\/http1-(?:connection|input)\.js$/, 'receive'],
  [/\/dist\/listeners\/http1-message\.js$/, 'forward'],
  [/\/dist\/upstream\//, 'forward'],
  [/\/dist\/pipeline\/(?:access-log|auditor)\.js$|\/dist\/observe\/(?:log|audit|destination|printable)\.js$|\/node_modules\/(?:pino|sonic-boom|safe-stable-stringify|quick-format-unescaped|fast-redact|@pinojs\/\w+)\//, 'log'],
  [/\/dist\/observe\/|\/dist\/server\/observing\.js$|\/node_modules\/(?:prom-client|tdigest)\//, 'metrics'],
  [/\/dist\/(?:listeners|pipeline|server)\//, 'pipeline'],
  [/\/dist\/(?:domain|http1)\//, undefined],
  [/\/dist\/|\/node_modules\//, 'other'],
]; // prettier-ignore

/**
 * Returns the row of a file; undefined if it belongs to its caller, like Node's own files and
 * native functions.
 *
 * @param {string} url
 */
export function ownerOf(url) {
  return OWNERS.find(([pattern]) => pattern.test(url))?.[1];
}

/**
 * Rows of frames that do not represent functions.
 *
 * @type {Record<string, string>}
 */
const STATES = { '(garbage collector)': 'gc', '(program)': 'program', '(idle)': 'idle' };
/** What Node calls for each read: frames below it and above Latchkey create the request. */
const RECEIVING = /^node:net$|^node:internal\/stream_base_commons$/;

/**
 * Returns the time of each row in a profile, in ms.
 *
 * @param {import('node:inspector').Profiler.Profile} profile of V8
 */
export function attribute({ nodes, samples = [], timeDeltas = [] }) {
  /** @type {Parents} */
  const parents = new Map();
  /** @type {Frames} */
  const frames = Object.fromEntries(nodes.map(({ id, callFrame }) => [id, callFrame]));
  for (const { id, children = [] } of nodes) for (const child of children) parents.set(child, id);
  /** @type {Map<number, number>} */
  const self = new Map();
  samples.forEach((id, index) => self.set(id, (self.get(id) ?? 0) + Math.max(0, timeDeltas[index])));
  /** @type {Rows} */
  const rows = new Map();
  /** @type {Map<string, number>} */
  const functions = new Map();
  for (const [id, us] of self) {
    const { row, isOwn } = rowOf(id, frames, parents);
    const sum = rows.get(row) ?? { own: 0, called: 0 };
    sum[isOwn ? 'own' : 'called'] += us / 1000;
    rows.set(row, sum);
    const { functionName, url, lineNumber } = frames[id];
    const place = `${functionName || '(anonymous)'} ${url.replace(/^.*\/(?=(?:dist|node_modules)\/)/, '')}:${lineNumber + 1}`;
    functions.set(place, (functions.get(place) ?? 0) + us / 1000);
  }
  const hottest = [...functions].map(([place, ms]) => ({ place, ms })).toSorted((a, b) => b.ms - a.ms);
  return { rows, functions: hottest };
} // prettier-ignore

/**
 * Returns the bytes that each row allocated, from a sampled allocation profile of V8.
 *
 * @param {AllocationNode} head
 */
export function attributeAllocations(head) {
  /** @type {Map<string, number>} */
  const rows = new Map();
  /**
   * @param {AllocationNode} node
   * @param {string | undefined} above the row of its caller
   * @param {boolean} receivesAbove
   */
  const walk = ({ callFrame: { url }, selfSize, children }, above, receivesAbove) => {
    const row = ownerOf(url) ?? above;
    const receives = receivesAbove || RECEIVING.test(url);
    const name = row ?? (receives ? 'receive' : 'node');
    rows.set(name, (rows.get(name) ?? 0) + selfSize);
    for (const child of children) walk(child, row, receives);
  };
  walk(head, undefined, false);
  return rows;
}

/**
 * @param {number} id
 * @param {Frames} frames
 * @param {Parents} parents
 */
function rowOf(id, frames, parents) {
  const state = STATES[frames[id].functionName];
  if (state !== undefined) return { row: state, isOwn: true };
  let receives = false;
  for (let at = /** @type {number | undefined} */ (id); at !== undefined; at = parents.get(at)) {
    const { url } = frames[at];
    const owner = ownerOf(url);
    if (owner !== undefined) return { row: owner, isOwn: at === id };
    receives ||= RECEIVING.test(url);
  }
  return { row: receives ? 'receive' : 'node', isOwn: true };
}
