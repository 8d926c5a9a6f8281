import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { WEBHOOK_EVENTS } from '../../src/domain/webhook.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { newWebhookSecret } from '../helpers/webhook-receiver.js';

const page = readFileSync('docs/webhooks.md', 'utf8');

type Verify = (secret: string, headers: Record<string, string>, body: string, now?: number) => unknown;

t.test('the documented example accepts only what is signed', async (t) => {
  const [, code = ''] = /```js\n([^]*?)```/.exec(page) ?? [];
  const file = join(temporaryFolder(t), 'verify.mjs');
  writeFileSync(file, code);
  const { verifyWebhook } = (await import(pathToFileURL(file).href)) as { verifyWebhook: Verify };
  const [secret, other] = [newWebhookSecret(), newWebhookSecret()];
  const now = new Date();
  const body = '{"type":"webhook.test"}';
  const headers = {
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign('msg_1', now, body),
  };
  t.same(verifyWebhook(secret, headers, body), { type: 'webhook.test' });
  const signatures = `${new Webhook(other).sign('msg_1', now, body)} ${headers['webhook-signature']}`;
  t.same(verifyWebhook(secret, { ...headers, 'webhook-signature': signatures }, body), {
    type: 'webhook.test',
  });
  const wrong: [string, Record<string, string>, string, number?][] = [
    [other, headers, body],
    [secret, headers, `${body} `],
    [secret, { ...headers, 'webhook-id': 'msg_2' }, body],
    [secret, { ...headers, 'webhook-signature': headers['webhook-signature'].replace('v1', 'v2') }, body],
    [secret, {}, body],
    [secret, headers, body, now.getTime() + 301_000],
    [secret, headers, body, now.getTime() - 301_000],
  ];
  for (const each of wrong) t.throws(() => verifyWebhook(...each));
});

t.test('the documentation has a row for each event', async (t) => {
  for (const event of WEBHOOK_EVENTS) t.match(page, new RegExp(`^\\| \`${event}\` +\\|`, 'm'), event);
});
