// Generates load at a fixed rate, however long the responses take (open loop), which wrk cannot do.
// Requests become due at random moments (Poisson), as those of many independent clients. The time
// of each counts from the moment it was due, so a proxy that stalls is charged for every request
// that had to wait, not only for the 64 in flight.
//
// Started with one argument, JSON: { port, rate, seconds, connections, requests: [text of a whole
// request, ...] }. Prints one line of JSON.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from './statistics.mjs';

/**
 * Pause in milliseconds, so that work left over from opening the connections affects no measured
 * request.
 */
const REST_MS = 500;

/**
 * @typedef {{ port: number, rate: number, seconds: number, connections: number, requests: string[]
 *   }} Pace
 */
/** @type {Pace} */
const { port, rate, seconds, connections, requests } = JSON.parse(process.argv[2]);
const bytes = requests.map((text) => Buffer.from(text, 'latin1'));
/** @type {Connection[]} */
const idle = [];
/** @type {number[]} */
const waiting = [];
/** @type {number[]} */
const times = [];
/** @type {number[]} */
const lags = [];
let head = 0;
let turn = Math.floor(Math.random() * bytes.length);
let failed = 0;
let refused = 0;
let overdue = 0;

class Connection {
  #socket = connect({ port, host: '127.0.0.1', noDelay: true });
  #seen = '';
  #dueAt = 0;
  /** @type {((nothing?: undefined) => void) | undefined} */
  #begun;

  constructor() {
    // Resolves with the first response: accepting all connections at once would distort the first
    // measurements.
    this.begun = new Promise((resolve) => (this.#begun = resolve));
    this.#socket.once('connect', () => this.send(0));
    this.#socket.on('data', (chunk) =>
      this.#take(/** @type {import('../../src/http1/bytes.js').Bytes} */ (chunk)),
    );
    this.#socket.on('close', () => {
      failed += 1;
    });
    this.#socket.on('error', () => undefined);
  }

  /** @param {number} dueAt */
  send(dueAt) {
    this.#dueAt = dueAt;
    turn = (turn + 1) % bytes.length;
    this.#socket.write(bytes[turn]);
  }

  close() {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }

  /** @param {import('../../src/http1/bytes.js').Bytes} chunk */
  #take(chunk) {
    this.#seen = this.#seen === '' ? chunk.latin1Slice() : this.#seen + chunk.latin1Slice();
    if (!isWhole(this.#seen)) return;
    if (this.#seen.charCodeAt(9) !== 0x32) refused += 1;
    this.#seen = '';
    if (this.#begun !== undefined) {
      this.#begun();
      this.#begun = undefined;
      return;
    }
    times.push(performance.now() - this.#dueAt);
    if (head < waiting.length) this.send(waiting[head++]);
    else idle.push(this);
    sendDue();
  }
}

/**
 * Returns whether a response is complete.
 *
 * @param {string} text
 */
function isWhole(text) {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, end + 2));
  return length === null ? text.endsWith('0\r\n\r\n') : text.length >= end + 4 + Number(length[1]);
}

const gap = () => (-Math.log(1 - Math.random()) / rate) * 1000;
let next = Infinity;
let endAt = Infinity;

function sendDue() {
  const now = performance.now();
  while (next <= now && next < endAt) {
    lags.push(now - next);
    const connection = idle.pop();
    if (connection !== undefined) connection.send(next);
    else {
      waiting.push(next);
      overdue += 1;
    }
    next += gap();
  }
}

const all = Array.from({ length: connections }, () => new Connection());
await Promise.all(all.map(({ begun }) => begun));
await sleep(REST_MS);
idle.push(...all);
const startedAt = performance.now();
endAt = startedAt + seconds * 1000;
next = startedAt + gap();
await new Promise((/** @type {(nothing?: undefined) => void} */ resolve) => {
  const tick = () => {
    sendDue();
    if (performance.now() < endAt + 500) setTimeout(tick, 1);
    else resolve();
  };
  tick();
});
for (const connection of all) connection.close();
/** @typedef {typeof result} Waits in milliseconds */
const result = {
  requests: times.length,
  failed,
  refused,
  overdue,
  p50: quantile(times, 0.5),
  p99: quantile(times, 0.99),
  p999: quantile(times, 0.999),
  lag_p99: quantile(lags, 0.99),
};
process.stdout.write(`${JSON.stringify(result)}\n`);
