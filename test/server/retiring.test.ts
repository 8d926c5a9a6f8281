import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { loadConfigToServe } from '../../src/config/load.js';
import { logSettings } from '../../src/config/mask.js';
import { LineBuffer } from '../../src/observe/json-line.js';
import { logTo } from '../../src/observe/log.js';
import { readMetrics } from '../../src/observe/metrics.js';
import { startWorker } from '../../src/server/processes/worker.js';
import { applyDirectoryFile } from '../../src/server/reload/directory-file.js';
import { openStore } from '../../src/server/stores/open-store.js';
import { client, directory } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';
import { lineDestination } from '../helpers/line-destination.js';

const held: ServerResponse[] = [];
const upstream = createServer((_req, res) => void held.push(res)).listen(0, '127.0.0.1');
await once(upstream, 'listening');
const { port } = upstream.address() as AddressInfo;

const file = writeConfig(
  temporaryFolder(t),
  {
    upstream: `http://127.0.0.1:${port}`,
    interface: { ui: { enabled: false } },
    listen: { host: '127.0.0.1', port: 0 },
  },
  await directory(),
);
const loaded = loadConfigToServe(file, {});
const lines = new LineBuffer();
const destination = lineDestination(lines);
const log = logTo(destination, logSettings(loaded));
const opened = await openStore(loaded);
await applyDirectoryFile(loaded, opened, log);
const worker = await startWorker(loaded, opened, log);
t.teardown(async () => {
  for (const res of held) res.end();
  await worker.drain();
  await opened.close();
  upstream.close();
});

async function active(): Promise<number | undefined> {
  const metrics = (await readMetrics()) as { name: string; values: { value: number }[] }[];
  return metrics.find(({ name }) => name === 'latchkey_upstream_active_requests')?.values[0]?.value;
}

t.test('what a replaced configuration still holds is counted', async (t) => {
  const { create } = client(worker.url);
  const made = (await create('superuser')).json as { access_token: string };
  const reply = send(worker.url, '/x', { headers: { 'Service-Key': made.access_token } });
  await until(() => held.length === 1, 'the request arrives');
  for (let i = 0; i < 2; i++) worker.prepare(loaded).commit();
  t.equal(await active(), 1, 'a request of a replaced configuration');
  for (const res of held) res.end('x');
  t.equal((await reply).status, 200);
  await until(async () => (await active()) === 0, 'none');
});
