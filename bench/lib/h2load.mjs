// The load over TLS and HTTP/2: h2load, which also speaks HTTP/1.1, so that one program generates
// both.
import { spawn } from 'node:child_process';

/**
 * @typedef {{ url: string, port: number, fields: Record<string, string>, seconds: number, cores:
 *   number[], connections: number, streams: number, h1: boolean, rate?: number }} Asked `streams` are
 *   requests at once on each connection, `rate` its requests per second
 */

/**
 * Runs h2load once.
 *
 * @param {Asked} asked
 * @returns completed requests, seconds, responses other than 2xx
 * @throws Error if requests failed
 */
export async function h2load({ url, port, fields, seconds, cores, connections, streams, h1, rate }) {
  const headers = Object.entries(fields).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const paced = rate === undefined ? [] : [`--rps=${rate}`];
  const args = ['-c', cores.join(','), 'h2load', '-t', '1', '-c', String(connections), '-m', String(streams), '-D', String(seconds), `--connect-to=127.0.0.1:${port}`, ...(h1 ? ['--h1'] : []), ...paced, ...headers, url];
  const child = spawn('taskset', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  await new Promise((done) => child.once('close', done));
  return parseResult(output, seconds);
} // prettier-ignore

/**
 * Parses the output of h2load.
 *
 * @param {string} output
 * @param {number} seconds
 */
export function parseResult(output, seconds) {
  const counts = /(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout/.exec(output);
  const statuses = /status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx/.exec(output);
  if (counts === null || statuses === null) throw new Error(`h2load failed: ${output.trim().slice(-500)}`);
  const [good, ...bad] = statuses.slice(1).map(Number);
  const refused = bad.reduce((sum, count) => sum + count, 0);
  const broken = Number(counts[3]) + Number(counts[4]);
  if (broken > 0) throw new Error(`${broken} requests failed (connection or timeout)`);
  return { requests: good + refused, seconds, p50: NaN, p99: NaN, refused, bytes: NaN };
}
