#!/usr/bin/env node
// Measures the cost of a check over gRPC next to one over HTTP: the same request to Latchkey, sent
// by h2load in turns.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseResult } from '../lib/h2load.mjs';
import { startLatchkey } from '../lib/latchkey.mjs';
import { cpuSeconds } from '../lib/proc.mjs';
import { CORES, run, temporaryFolder } from '../lib/processes.mjs';
import { median } from '../lib/statistics.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    checks: { type: 'string', default: '20000' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run build && node bench/decision/decision.mjs [options]

  --rounds N   of each row, in turn (5). A figure is the median, in CPU time of Latchkey for one check
  --checks N   in a round (20000)
`);
  process.exit(0);
}

const FIELDS = {
  'user-agent': 'curl/8.0.1',
  accept: '*/*',
  cookie: 'theme=dark',
  'x-forwarded-for': '203.0.113.9',
  'x-forwarded-proto': 'http',
};

/**
 * Encodes a length-delimited field (protobuf, wire type 2).
 *
 * @param {number} number
 * @param {...(string | Buffer)} parts
 */
function field(number, ...parts) {
  const value = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = value;
  const size = length < 128 ? [length] : [(length & 127) | 128, length >> 7];
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...size]), value]);
}

/** Encodes a CheckRequest in a gRPC frame. */
function checkFrame() {
  const headers = Object.entries(FIELDS).map(([name, value]) => field(3, field(1, name), field(2, value)));
  const http = field(2, field(2, 'GET'), field(4, '/open'), field(5, 'api.example.com'), ...headers);
  const message = field(1, field(4, http));
  return Buffer.concat([Buffer.from([0, 0, 0, message.length >> 8, message.length & 255]), message]);
}

await run(async () => {
  const folder = temporaryFolder('decision');
  const server = await startLatchkey({
    folder,
    name: 'latchkey',
    cores: CORES.slice(0, 1),
    upstreamPort: 1,
    config: {
      decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
      routes: [{ path: '/open', auth: 'none' }],
      log: { requests: 'none' },
    },
  });
  const data = join(folder, 'check');
  writeFileSync(data, checkFrame());
  const sent = Object.entries(FIELDS).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const check = `http://127.0.0.1:${server.grpcPort}/envoy.service.auth.v3.Authorization/Check`;
  const rows = [
    { name: 'gRPC', args: ['-m', '8', '-d', data, '-H', 'content-type: application/grpc', '-H', 'te: trailers', check] },
    { name: 'HTTP', args: ['--h1', ...sent, `http://127.0.0.1:${server.decisionPort}/ext_authz/open`] },
  ].map((row) => ({ ...row, costs: /** @type {number[]} */ ([]) })); // prettier-ignore
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const { args, costs } of rows) {
      const before = cpuSeconds([server.pid]);
      const options = ['-t', '1', '-c', '8', '-n', values.checks, ...args];
      const { stdout } = spawnSync('h2load', options, { encoding: 'utf8' });
      const { requests, refused } = parseResult(stdout, 0);
      if (refused > 0) throw new Error(`${refused} checks failed`);
      costs.push((cpuSeconds([server.pid]) - before) / requests);
    }
  }
  for (const { name, costs } of rows)
    process.stdout.write(`${name}  ${(median(costs) * 1e6).toFixed(1)} µs a check\n`);
});
