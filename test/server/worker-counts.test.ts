import t from 'tap';
import { metrics, readMetrics, renderSum, sumOfCounts } from '../../src/observe/metrics.js';
import { WorkerCounts } from '../../src/server/processes/serving.js';

/** The metrics of a worker with so many open connections that refused as many. */
async function metricsOf(connections: number): Promise<unknown[]> {
  metrics.openConnections.set(connections);
  metrics.refusedConnections.reset();
  metrics.refusedConnections.inc(connections);
  return readMetrics();
}

t.test('a worker that ended leaves what it counted, and nothing that it held', async (t) => {
  const counts = new WorkerCounts<string, unknown[]>(sumOfCounts);
  const sum = async () => (await renderSum(counts.all())).text;
  counts.note('first', await metricsOf(10));
  counts.note('second', await metricsOf(3));
  t.match(await sum(), /^latchkey_connections 13$/m);
  counts.depart('first');
  t.match(await sum(), /^latchkey_connections 3$/m);
  t.match(await sum(), /^latchkey_connections_refused_total 13$/m);
  counts.note('third', await metricsOf(1));
  counts.depart('second');
  t.match(await sum(), /^latchkey_connections 1$/m);
  t.match(await sum(), /^latchkey_connections_refused_total 14$/m);
});
