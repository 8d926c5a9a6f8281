#!/usr/bin/env node
// Runs random clients against real processes under faults, and checks the answers they received.
// See `--help`.
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { progress } from '../lib/output.mjs';
import { run } from '../lib/processes.mjs';
import { check } from './checker.mjs';
import { readHistory, runOf } from './record.mjs';
import { boundsHold, describe } from './report.mjs';
import { FAULTS, makeHistory } from './run.mjs';

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'sentinel' },
    faults: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    minutes: { type: 'string', default: '2' },
    pace: { type: 'string', default: '1' },
    rate: { type: 'string', default: '1' },
    acknowledge: { type: 'string', default: '0' },
    'down-after': { type: 'string', default: '500' },
    redis: { type: 'string', multiple: true, default: [] },
    root: { type: 'string', default: join(import.meta.dirname, '../..') },
    more: { type: 'boolean', default: false },
    beside: { type: 'string' },
    history: { type: 'string' },
    check: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run history -- [options]     (builds first; needs redis-server or PostgreSQL, and libfaketime for clocks)

  --store KIND      sentinel (three servers, three sentinels), cluster (six servers), redis (one), postgres (a primary and
                    its synchronous standby), each with three sidecars; or lmdb (one server with two workers) (sentinel)
  --faults A,B      ${Object.entries(FAULTS).map(([kinds, faults]) => `${kinds}: ${faults.join(',')}`).join('\n                    ')} (all of them)
  --seed N          seed of the schedule and of the clients (the current time)
  --minutes M       duration of clients and faults (2)
  --pace X          factor for the length of faults and of the pauses between them (1)
  --rate X          factor for 120 uses, 4 new tokens, 1 login and 5 revocations per second (1)
  --more            also suspends, resumes and rotates tokens, uses one-time passwords, ends all other sessions of a user,
                    and runs the commands latchkey user lock, unlock and set-password
  --acknowledge N   store.acknowledge: { replicas: N, timeout: 1s }; no acknowledged token may be lost then (0)
  --down-after MS   of the sentinels; cluster-node-timeout (500)
  --redis LINE      a line of redis.conf, such as "min-replicas-to-write 1"; may be given several times
  --root DIR        of the build to run: DIR/bin/latchkey.js (this one)
  --beside DIR      of the build that every other sidecar, and the commands, run: another version on the same store
  --history FILE    file for the history, one JSON object per line (a new file in ${tmpdir()})
  --check FILE      only checks a recorded history
  --json            prints the report as JSON

Clients create, use and revoke tokens and sessions at random during the faults. Then everything is healed, and every
acknowledged credential is used once more at every sidecar. The exit code is 1 if a rule was broken:

  - a credential whose revocation was acknowledged or observed more than 2 s ago is never accepted; without faults 50 ms,
    with lmdb 0 ms. The same holds for a suspended token, the token of a locked user, and their replacements
  - of two rotations of a token without an overlap, only one succeeds
  - a one-time password is accepted once; Sentinel and Cluster without --acknowledge may forget it in a failover
  - an acknowledged credential that was not revoked is accepted, or answered with 503. Sentinel and Cluster without
    --acknowledge may lose it, which is counted
  - on Sentinel and Cluster, 95 % of uses are answered while one server is gone, and none waits longer than 3 s
`); // prettier-ignore
  process.exit(0);
}

await run(async () => {
  const file = values.check ?? values.history ?? join(mkdtempSync(join(tmpdir(), 'latchkey-history-')), 'history.jsonl');
  const history = values.check === undefined ? await makeHistory({ ...values, file }, progress) : readHistory(file);
  progress('');
  const report = check(history);
  const isWithin = boundsHold(report, runOf(history));
  if (values.json) process.stdout.write(`${JSON.stringify({ ...report, isWithin })}\n`);
  else {
    process.stdout.write(`${describe(report, history)}\n\n`);
    if (!isWithin) process.stdout.write('bounds on availability not met\n');
    process.stdout.write(`history in ${file}\n`);
  }
  if (report.violations.length > 0 || !isWithin) process.exitCode = 1;
}); // prettier-ignore
