import { join } from 'node:path';
import t from 'tap';
import type { AuditLog } from '../../src/observe/audit.js';
import type { Log } from '../../src/observe/log.js';
import { renderMetrics } from '../../src/observe/metrics.js';
import { createWebhooks } from '../../src/server/webhooks.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { endpointOf } from '../../src/webhooks/endpoint.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';
import { newWebhookSecret } from '../helpers/webhook-receiver.js';

t.test('the sending process logs and counts dropped webhooks', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  const lines: object[] = [];
  const note = (fields: object | string, msg?: string) =>
    lines.push(typeof fields === 'string' ? { msg: fields } : { ...fields, msg });
  const log = { info: note, warn: note, error: note } as unknown as Log;
  const audit = { note: () => undefined } as unknown as AuditLog;
  const webhook = {
    url: 'https://127.0.0.1:1/',
    secret: newWebhookSecret(),
    events: ['token.created' as const],
    allow_private: true,
    timeout: 1_000,
    max_attempts: 1,
  };
  let looks = 0;
  const { id } = endpointOf(webhook);
  const status = async () => {
    looks += 1;
    const counts = { queued: 10_000, dead: 1_000, dropped: 7 * looks, deadDropped: looks };
    const times = { oldestAt: 1, disabledAt: null, lastSuccessAt: null, lastFailureAt: null };
    return [{ endpoint: id, ...counts, ...times, lastError: null }];
  };
  const opened = { store: { ...store, webhooks: { ...store.webhooks, status } }, audit };
  const webhooks = createWebhooks(opened, log);
  t.teardown(async () => {
    await webhooks.stop();
    await store.maintenance.close();
  });
  webhooks.use({ webhooks: [webhook] });
  const dropped = () => lines.find((line) => (line as { msg: string }).msg.startsWith('webhooks dropped'));
  await until(() => dropped() !== undefined, 'it is logged');
  t.same(dropped(), {
    endpoint: id,
    events: 7,
    dead_letters: 1,
    msg: 'webhooks dropped; endpoint queue full',
  });
  const { text } = await renderMetrics();
  t.match(text, `latchkey_webhook_dropped_total{endpoint="${id}",queue="waiting"} 7`);
  t.match(text, `latchkey_webhook_dropped_total{endpoint="${id}",queue="dead_letters"} 1`);
  t.match(text, `latchkey_webhook_queued{endpoint="${id}"} 10000`);
});
