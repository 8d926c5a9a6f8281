#!/usr/bin/env node
// Measures Latchkey and its alternatives in one run. See docs/design/performance.md.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { installPeers } from '../lib/peers.mjs';
import { run } from '../lib/processes.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    workload: { type: 'string' },
    write: { type: 'boolean', default: false },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout
    .write(`npm run bench -- [options]     (about 20 minutes; it needs two cores that nothing else uses)

  --only A,B        only subjects whose name contains A or B, ignoring case: latchkey,http-proxy
  --workload A,B    only these: token, latency, storm, own, unknown, down-64k, up-64k, down-10m, up-10m, http2, tls, tls-rate, workers, asked
  --rounds N        interleaved rounds of each (10)
  --seconds N       seconds of a round (2); most workloads take half of both
  --quick           two rounds of one second, to check that everything works
  --json FILE       writes the results to a file
  --write           writes them to docs/design/performance.md, its picture, and bench/compare/results.json
`);
  process.exit(0);
}

await run(async () => {
  installPeers();
  // Imported late, because its dependencies are installed only now.
  const { compareAll } = await import('./all.mjs');
  const { results, markdown } = await compareAll({
    rounds: Number(values.rounds ?? (values.quick ? 2 : 10)),
    seconds: Number(values.seconds ?? (values.quick ? 1 : 2)),
    only: values.only?.toLowerCase().split(','),
    workloads: values.workload?.split(','),
  });
  process.stdout.write(`${markdown}\n`);
  if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(results, null, 2));
  if (values.write) {
    const { writeDown } = await import('./page.mjs');
    await writeDown(results);
  }
}); // prettier-ignore
