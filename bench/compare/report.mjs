// Formats measurements as tables.
import { figure, table } from '../lib/output.mjs';
import { findWorkload, WORKLOADS } from './workloads.mjs';

/**
 * @typedef {import('./measure.mjs').CostRow & import('./latency.mjs').WaitRow} Row has the figures
 *   of its workload only
 */
/**
 * @typedef {{ machine: ReturnType<typeof import('../lib/machine.mjs').machineFacts>, rounds:
 *   number, seconds: number, versions: Record<string, string | undefined>, not_measured:
 *   Record<string, string>, workloads: Record<string, Row[]> }} Results
 */

const MEBIBYTE = 2 ** 20;

/**
 * The main table: every subject, one small request.
 *
 * @param {Row[]} rows
 * @param {Row} base
 */
export function mainTable(rows, base) {
  const head = ['', 'CPU µs per request', `× ${base?.name ?? 'the first'}`, 'requests/s', 'p50 ms', 'p99 ms', 'memory MiB'];
  const floor = base?.cpu_us;
  return table(
    head,
    rows.map((row) => [
      row.name,
      cpuOf(row),
      figure(row.cpu_us / floor),
      Math.round(row.requests_per_second).toLocaleString('en-US'),
      figure(row.p50_ms),
      figure(row.p99_ms),
      figure(row.memory_bytes / MEBIBYTE),
    ]),
  );
} // prettier-ignore

/**
 * Formats the cost of a request; if two processes share the work, also that of each.
 *
 * @param {Row} row
 */
function cpuOf({ cpu_us, cpu_us_of }) {
  const { proxy, asked } = cpu_us_of;
  return asked === undefined
    ? figure(cpu_us)
    : `${figure(cpu_us)} (${figure(proxy)} + asked ${figure(asked)})`;
}

/**
 * Latencies at one rate.
 *
 * @param {Row[]} rows
 */
function latencyTable(rows) {
  const head = ['', 'p50 ms', 'p99 ms', 'p99.9 ms', 'busy', 'generator delay, p99 ms'];
  return `${rateOf(rows)}\n\n${table(
    head,
    rows.map((row) => [row.name, ...waitsOf(row), figure(row.lag_p99)]),
  )}`;
}

/**
 * The effect of logins on other requests.
 *
 * @param {Row[]} rows
 */
function stormTable(rows) {
  const head = ['', 'p50 ms', 'p99 ms', 'p99.9 ms', 'busy', 'logins/s'];
  return `${rateOf(rows)}\n\n${table(
    head,
    rows.map((row) => [row.name, ...waitsOf(row), figure(row.logins_per_second)]),
  )}`;
}

/** @param {Row[]} rows */
function rateOf([{ rate }]) {
  return `${rate.toLocaleString('en-US')} requests per second.`;
}

/** @param {Row} row */
function waitsOf({ p50, p99, p999, busy }) {
  return [figure(p50), figure(p99), figure(p999), `${Math.round(busy * 100)} %`];
}

/**
 * The cost of each kind of request for Latchkey.
 *
 * @param {Row[]} rows
 */
function ownTable(rows) {
  return table(
    ['', 'CPU µs per request', 'requests/s'],
    rows.map(({ name, cpu_us, requests_per_second }) => [
      findWorkload(name)?.title ?? name,
      figure(cpu_us),
      Math.round(requests_per_second).toLocaleString('en-US'),
    ]),
  );
}

/** @param {Row[]} rows */
function loadTable(rows) {
  return mainTable(rows, rows.find((row) => row.name === 'bare TCP pipe') ?? rows[0]);
}

/**
 * The cost of TLS or HTTP/2.
 *
 * @param {Row[]} rows
 */
function encryptedTable(rows) {
  return table(
    ['', 'CPU µs per request', `× ${rows[0].name}`, 'requests/s', 'memory MiB'],
    rows.map(({ name, cpu_us, requests_per_second, memory_bytes }) => [
      name,
      figure(cpu_us),
      figure(cpu_us / rows[0].cpu_us),
      Math.round(requests_per_second).toLocaleString('en-US'),
      figure(memory_bytes / MEBIBYTE),
    ]),
  );
}

/** @type {Record<string, (rows: Row[]) => string>} */
const TABLES = {
  latency: latencyTable,
  storm: stormTable,
  own: ownTable,
  http2: encryptedTable,
  tls: encryptedTable,
  'tls-rate': encryptedTable,
};

/**
 * The table of a workload.
 *
 * @param {string} name
 * @param {Row[]} rows
 */
export const tableOf = (name, rows) => (TABLES[name] ?? loadTable)(rows);

/**
 * Returns the whole report as Markdown.
 *
 * @param {Results} results
 */
export function report({ workloads, not_measured }) {
  const sections = WORKLOADS.filter(({ name }) => workloads[name] !== undefined).map(
    ({ name, title }) => `### ${title}\n\n${tableOf(name, workloads[name])}\n`,
  );
  const missing = Object.entries(not_measured).map(([name, fix]) => `Not measured: ${name}. ${fix}`);
  return [...sections, ...missing].join('\n');
}
