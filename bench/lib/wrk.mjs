// The load generator: wrk. One core drives 60,000 requests per second with it over persistent
// connections, which leaves room for the upstream beside it. It sends the next request on each
// response (closed loop); for a fixed rate, see paced.mjs.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const MARK = 'RESULT ';

/**
 * @typedef {{ method: string, path: string, fields: Record<string, string>, body?: number }}
 *   Request `body` in bytes
 */

/**
 * Writes a wrk script that sends the requests in turn, starting with a random one.
 *
 * @param {Request[]} requests
 * @param {string} folder
 * @param {string} name
 */
export function writeScript(folder, name, requests) {
  const file = join(folder, `${name}.lua`);
  const data = join(folder, `${name}.requests`);
  // One request per line, with tabs between its parts: wrk's Lua reads a million of them in a
  // second.
  const lines = requests.map(({ method, path, fields }) => {
    const head = Object.entries(fields).map(([field, value]) => `${field}: ${value}`);
    return [method, path, ...head].join('\t');
  });
  writeFileSync(data, lines.join('\n'));
  const body = requests[0]?.body ?? 0;
  writeFileSync(
    file,
    `local requests, count = {}, 0
local body = string.rep("x", ${body})
for line in io.lines(${JSON.stringify(data)}) do
  local head = line:gsub("^([^\\t]*)\\t([^\\t]*)", "%1 %2 HTTP/1.1\\r\\nHost: bench.example.com", 1):gsub("\\t", "\\r\\n")
  ${body > 0 ? `head = head .. "\\r\\nContent-Length: ${body}"` : ''}
  count = count + 1
  requests[count] = head .. "\\r\\n\\r\\n" .. body
end
local turn
function init()
  math.randomseed(os.time())
  turn = math.random(count)
end
function request()
  turn = turn % count + 1
  return requests[turn]
end
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('${MARK}{"requests":%d,"us":%d,"p50":%d,"p99":%d,"failed":%d,"refused":%d,"bytes":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.timeout, e.status, summary.bytes))
end
`,
  );
  return file;
}

/**
 * Runs wrk once.
 *
 * @returns completed requests, seconds, p50 and p99 in ms, responses of 400 and above
 * @throws Error if connections failed
 * @param {{ url: string, script: string, seconds: number, cores: number[], connections?: number |
 *   undefined }} what
 */
export async function wrk({ url, script, seconds, cores, connections = 64 }) {
  const args = ['-c', cores.join(','), 'wrk', '-t', '1', '-c', String(connections), '-d', `${seconds}s`, '--timeout', '30s', '-s', script, url];
  const child = spawn('taskset', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  await new Promise((done) => child.once('close', done));
  return parseResult(output);
} // prettier-ignore

/**
 * Warm-up until all hot code is compiled, which depends on the number of requests, but with a time
 * limit. After 20,000 requests, the next second still cost the Node programs a third to twice as
 * much as later ones.
 */
const WARM = { requests: 100_000, seconds: 12 };

/**
 * Runs load until the target is warm.
 *
 * @param {{ url: string, script: string, cores: number[], connections?: number | undefined }}
 *   target
 */
export async function warmUp(target) {
  let requests = 0;
  for (let second = 0; second < WARM.seconds && requests < WARM.requests; second++)
    requests += (await wrk({ ...target, seconds: 1 })).requests;
}

/**
 * Parses the output of wrk.
 *
 * @param {string} output
 */
export function parseResult(output) {
  const line = output.split('\n').find((each) => each.startsWith(MARK));
  if (line === undefined) throw new Error(`wrk failed: ${output.trim().slice(-500)}`);
  const { requests, us, p50, p99, failed, refused, bytes } = JSON.parse(line.slice(MARK.length));
  if (failed > 0) throw new Error(`${failed} requests of ${requests} failed (connection, read, write or timeout)`);
  return { requests, seconds: us / 1e6, p50: p50 / 1000, p99: p99 / 1000, refused, bytes };
} // prettier-ignore
