// Writes a run to docs/design/performance.md: tables, a picture, and the most important figures.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { chartsAsSvg } from '../lib/chart.mjs';
import { figure, table, writeResults, writeSections } from '../lib/output.mjs';
import { tableOf } from './report.mjs';
import { findWorkload } from './workloads.mjs';

/** @import { Results, Row } from './report.mjs' */

const RESULTS = 'bench/compare/results.json';
const PAGE = 'docs/design/performance.md';
const PICTURE = 'docs/images/performance.svg';
const ALT = 'CPU time and latency: Latchkey, proxies with a key check, a bare proxy';
const TABLES = [
  'token',
  'latency',
  'storm',
  'own',
  'unknown',
  'http2',
  'tls',
  'tls-rate',
  'asked',
  'workers',
];
const BODIES = ['down-64k', 'up-64k', 'down-10m', 'up-10m'];
/** @param {string} name */
const isOwn = (name) => name.startsWith('Latchkey');

/**
 * Draws the picture: the cost of a request, and its latency at one rate.
 *
 * @param {Results['workloads']} workloads
 */
export function pictureOf({ token, latency }) {
  const cost = {
    title: 'CPU time of a proxied request, in µs',
    note: 'Small GET with a token. Lighter: the service that is asked. The pipe and bare undici check nothing.',
    stacked: true,
    rows: token
      .toSorted((a, b) => a.cpu_us - b.cpu_us)
      .map(({ name, cpu_us, cpu_us_of: { proxy, asked } }) => ({
        name,
        parts: asked === undefined ? [proxy] : [proxy, asked],
        label: figure(cpu_us),
        own: isOwn(name),
      })),
  };
  const waits = {
    title: 'Latency at the same load, in ms: p50, and p99 (lighter)',
    note: `${latency[0].rate.toLocaleString('en-US')} requests a second, 256 connections, Poisson arrivals.`,
    stacked: false,
    rows: latency
      .toSorted((a, b) => a.p99 - b.p99)
      .map(({ name, p50, p99 }) => ({
        name,
        parts: [p50, p99],
        label: `${figure(p50)} / ${figure(p99)}`,
        own: isOwn(name),
      })),
  };
  return chartsAsSvg([cost, waits]);
}

/**
 * Describes the machine and the installed versions.
 *
 * @param {Pick<Results, 'machine' | 'versions' | 'rounds' | 'seconds'>} results
 */
export function machineTable({ machine, versions, rounds, seconds }) {
  const { cpu, cores, memory_gib, system, kernel, node, wrk, date } = machine;
  const peers = new Map(Object.entries(versions).filter(([, version]) => version !== undefined));
  const named = new Map([...peers].map(([name, version]) => [name.split(',')[0], version]));
  return table(
    ['', ''],
    [
      ['processor', `${cpu}, ${cores} cores, ${memory_gib} GiB`],
      ['system', `${system}, Linux ${kernel}`],
      ['Node', `${node} unless stated otherwise`],
      ['measured', `${date}, ${rounds} rounds of ${seconds} s, wrk ${wrk}`],
      ['versions', [...named].map(([name, version]) => `${name} ${version}`).join(', ')],
    ],
    [0, 1],
  );
}

/**
 * @param {Row[] | undefined} rows
 * @param {string} name
 */
const rowOf = (rows, name) => rows?.find((row) => row.name === name);
/** @param {string} name */
const titleOf = (name) => findWorkload(name)?.title ?? name;

/**
 * The cost of bodies for each subject.
 *
 * @param {Results['workloads']} workloads
 */
export function bodyTable(workloads) {
  const names = BODIES.filter((name) => workloads[name] !== undefined);
  const subjects = workloads[names[0]].map(({ name }) => name);
  const rows = subjects.map((subject) => [
    subject,
    ...names.map((name) => figure((rowOf(workloads[name], subject)?.cpu_us ?? NaN) / 1000)),
  ]);
  return table(['CPU ms per request', ...names.map(titleOf)], rows);
}

/**
 * The figures for readers who read nothing else.
 *
 * @param {Results['workloads']} workloads
 */
export function inShort({ token, latency, own: requests }) {
  const cpu = (/** @type {string} */ name) => rowOf(token, name)?.cpu_us ?? NaN;
  const times = (/** @type {string} */ name) => figure(cpu('Latchkey') / cpu(name));
  const p99 = (/** @type {string} */ name) => `${figure(rowOf(latency, name)?.p99)} ms`;
  const refused = ['malformed', 'unknown', 'scope'].map((name) => figure(rowOf(requests, name)?.cpu_us));
  return table(
    ['', ''],
    [
      ['CPU per request through Latchkey', `${figure(cpu('Latchkey'))} µs`],
      ['compared with http-proxy and a key check', `${times('http-proxy')} ×`],
      ['compared with Caddy and a header matcher', `${times('Caddy, header matcher')} ×`],
      ['compared with a bare undici proxy without any check', `${times('bare undici')} ×`],
      ['compared with nginx and a key check in Lua', `${times('nginx, Lua')} ×`],
      ['compared with a bare TCP pipe of Node.js streams, unparsed', `${times('bare TCP pipe')} ×`],
      ['p99 at the same load: Latchkey, http-proxy, Caddy', ['Latchkey', 'http-proxy', 'Caddy, header matcher'].map(p99).join(', ')],
      ['CPU per refusal: wrong checksum, unknown token, scope too small', `${refused.join(', ')} µs`],
    ],
  );
} // prettier-ignore

/**
 * Writes a run to the page, its picture and the results file. Results that were not measured this
 * time stay.
 *
 * @param {Results} results
 */
export async function writeDown({ workloads, ...about }) {
  /** @type {Partial<Results>} */
  const before = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : {};
  const merged = { ...before.workloads, ...workloads };
  const versions = { ...before.versions, ...about.versions };
  await writeResults(RESULTS, { ...about, versions, workloads: merged });
  /** @type {Record<string, string>} */
  const sections = { 'bench-machine': machineTable({ ...about, versions }) };
  for (const name of TABLES) {
    if (merged[name] !== undefined) sections[`bench-${name}`] = tableOf(name, merged[name]);
  }
  if (BODIES.some((name) => merged[name] !== undefined)) sections['bench-bodies'] = bodyTable(merged);
  if (['token', 'latency', 'own'].every((name) => merged[name] !== undefined)) {
    sections['bench-short'] = inShort(merged);
    writeFileSync(PICTURE, pictureOf(merged));
    sections['bench-picture'] = `![${ALT}](../images/performance.svg)`;
  }
  await writeSections(PAGE, sections);
}
