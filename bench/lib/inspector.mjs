// Uses the profilers in the inspector of a process.
import { WebSocket } from 'ws';

/** @typedef {import('node:inspector').HeapProfiler.SamplingHeapProfileNode} AllocationNode */
/**
 * @typedef {{ call: import('node:inspector/promises').Session['post'], close: () => void }}
 *   Inspector
 */

/**
 * Connects to the inspector of a process started with --inspect=127.0.0.1:0.
 *
 * @param {string} url of the inspector
 * @returns {Promise<Inspector>}
 */
export async function openInspector(url) {
  const socket = new WebSocket(url, { maxPayload: 1024 * 1024 * 1024, perMessageDeflate: false });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  /** @type {Map<number, { resolve: (result: unknown) => void, reject: (error: Error) => void }>} */
  const calls = new Map();
  let id = 0;
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(/** @type {string} */ (data));
    const call = calls.get(message.id);
    calls.delete(message.id);
    if (message.error === undefined) call?.resolve(message.result);
    else call?.reject(new Error(message.error.message));
  });
  /**
   * @param {string} method
   * @returns {Promise<unknown>}
   */
  const call = (method, params = {}) =>
    new Promise((resolve, reject) => {
      calls.set(++id, { resolve, reject });
      socket.send(JSON.stringify({ id, method, params }));
    });
  return { call: /** @type {Inspector['call']} */ (call), close: () => socket.close() };
}

/**
 * Bytes between two samples. A few KiB per request, over tens of thousands of requests, give tens
 * of thousands of samples.
 */
const INTERVAL = 16_384;
const OLD_TOO = { includeObjectsCollectedByMajorGC: true };
const EVERYTHING = { ...OLD_TOO, includeObjectsCollectedByMinorGC: true };

/**
 * Returns the bytes allocated during some work, with the tree of V8's allocation profile.
 *
 * @template T
 * @param {Inspector} inspector
 * @param {() => Promise<T>} work
 */
export async function allocationsDuring(inspector, work) {
  return await sample(inspector, EVERYTHING, work);
}

/**
 * Returns the same for objects that survived the collections of young objects.
 *
 * @template T
 * @param {Inspector} inspector
 * @param {() => Promise<T>} work
 */
export async function survivorsDuring(inspector, work) {
  return await sample(inspector, OLD_TOO, work);
}

/**
 * @template T
 * @param {Inspector} inspector
 * @param {object} what
 * @param {() => Promise<T>} work
 */
async function sample(inspector, what, work) {
  await inspector.call('HeapProfiler.startSampling', { samplingInterval: INTERVAL, ...what });
  const result = await work();
  const { profile } = await inspector.call('HeapProfiler.stopSampling');
  return { result, bytes: sizeOf(profile.head), head: profile.head };
}

/**
 * Returns the bytes of a subtree.
 *
 * @param {AllocationNode} part
 * @returns {number}
 */
function sizeOf({ selfSize, children }) {
  return children.reduce((sum, child) => sum + sizeOf(child), selfSize);
}
