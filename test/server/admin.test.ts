import t from 'tap';
import type { Log } from '../../src/observe/log.js';
import { type AdminViews, startAdmin } from '../../src/server/admin.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

// More than the socket buffers of a loopback connection hold.
const LARGE = 'x'.repeat(16 * 2 ** 20);
const views = {
  metrics: async () => ({ type: 'text/plain', text: LARGE }),
  ready: async () => ({ ready: true, checks: { store: LARGE }, warnings: {} }),
  reload: async () => ({ outcome: 'refused', faults: [LARGE], needsRestart: [] }),
  webhooks: async () => LARGE,
  config: () => LARGE,
  shadow: async () => LARGE,
} as unknown as AdminViews;
const settings = { host: '127.0.0.1', port: 0, hosts: [] };

t.test('a client that sends or reads slowly is disconnected, at every path', async (t) => {
  const { server, url } = await startAdmin(settings, views, {} as Log, { send: 200, read: 300 });
  t.teardown(() => server.close());
  const requests = [
    'GET /metrics',
    'GET /readyz',
    'GET /-/config',
    'GET /-/shadow',
    'GET /-/webhooks',
    'POST /-/reload',
  ].map((start) => `${start} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  const unread = requests.map((bytes) => openRaw(url, { bytes, reads: false }));
  const unsent = ['', 'GET /metrics HTTP/1.1\r\nX: ', 'POST /-/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n'];
  const opened = unsent.map((bytes) => openRaw(url, { bytes }));
  const open = () => new Promise<number>((resolve) => void server.getConnections((_, count) => resolve(count)));
  await until(async () => (await open()) > 0, 'they are connected');
  await until(async () => (await open()) === 0, 'all are disconnected', 5_000);
  t.equal(await open(), 0);
  for (const { socket } of [...unread, ...opened]) socket.destroy();
}); // prettier-ignore
