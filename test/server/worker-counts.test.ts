import t from 'tap';
import { loadConfig } from '../../src/config/load.js';
import { metrics, readMetrics, renderSum } from '../../src/observe/metrics.js';
import { WorkerCounts } from '../../src/server/processes/serving.js';
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
  const counts = new WorkerCounts<string>();
  const sum = async () => (await renderSum(counts.all().map(({ metrics }) => metrics))).text;
  counts.note('first', { metrics: await metricsOf(10), casualties: [] });
  counts.note('second', { metrics: await metricsOf(3), casualties: [] });
  t.match(await sum(), /^latchkey_connections 13$/m);
  counts.depart('first', loaded);
  t.match(await sum(), /^latchkey_connections 3$/m);
  t.match(await sum(), /^latchkey_connections_refused_total 13$/m);
  counts.note('third', { metrics: await metricsOf(1), casualties: [] });
  counts.depart('second', loaded);
  t.match(await sum(), /^latchkey_connections 1$/m);
  t.match(await sum(), /^latchkey_connections_refused_total 14$/m);
});
