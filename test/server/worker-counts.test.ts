import t from 'tap';
import { loadConfig } from '../../src/config/load.js';
import { metrics, readMetrics, renderSum } from '../../src/observe/metrics.js';
import type { Counts } from '../../src/server/processes/messages.js';
import { sumOfEnded } from '../../src/server/processes/serving.js';
import { temporaryFolder, writeConfig } from '../helpers/latchkey.js';

/** The metrics of a worker with so many open connections that refused as many. */
async function metricsOf(connections: number): Promise<unknown[]> {
  metrics.openConnections.set(connections);
  metrics.refusedConnections.reset();
  metrics.refusedConnections.inc(connections);
  return readMetrics();
}

t.test('a worker that ended leaves what it counted, and nothing that it held', async (t) => {
  const loaded = loadConfig(writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' }));
  const workers = [];
  for (const connections of [10, 3, 1])
    workers.push({ metrics: await metricsOf(connections), casualties: [] });
  const [first, second, third] = workers;
  const sum = async (...counts: unknown[]) =>
    (await renderSum((counts as Counts[]).map(({ metrics }) => metrics))).text;
  t.match(await sum(first, second), /^latchkey_connections 13$/m);
  const ended = sumOfEnded([first as Counts], loaded);
  t.match(await sum(ended, second), /^latchkey_connections 3$/m);
  t.match(await sum(ended, second), /^latchkey_connections_refused_total 13$/m);
  const bothEnded = sumOfEnded([ended, second as Counts], loaded);
  t.match(await sum(bothEnded, third), /^latchkey_connections 1$/m);
  t.match(await sum(bothEnded, third), /^latchkey_connections_refused_total 14$/m);
});
