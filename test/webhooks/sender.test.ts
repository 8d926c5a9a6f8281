import { join } from 'node:path';
import t, { type Test } from 'tap';
import { WEBHOOK_EVENTS } from '../../src/domain/webhook.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import type { WebhookStore } from '../../src/store/core/webhooks.js';
import type { DeliveryResult } from '../../src/webhooks/deliver.js';
import { type Deliver, WebhookSender } from '../../src/webhooks/sender.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';
import { BASE, createToken, NOW, token } from '../store/contract/records.js';

const ENDPOINT = {
  id: 'e',
  url: 'https://hook.example/',
  secret: [],
  allow_private: false,
  timeout: 1_000,
  max_attempts: 3,
};
const DELIVERED: DeliveryResult = { status: 204, error: null, retryAfter: null };
const FAILED: DeliveryResult = { status: 500, error: 'the endpoint responded with 500', retryAfter: null };

/**
 * Starts a sender on a store of its own.
 * @param change replaces operations of the store
 */
async function startSender(t: Test, deliver: Deliver, change: (store: WebhookStore) => Partial<WebhookStore> = () => ({}), endpoints = [ENDPOINT]) {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  await store.directory.change(BASE, NOW);
  store.webhooks.subscribe([{ endpoint: 'e', events: WEBHOOK_EVENTS }]);
  const told: string[] = [];
  const sender = new WebhookSender({ ...store.webhooks, ...change(store.webhooks) }, () => endpoints, deliver, {
    attempted: (_endpoint, { event }, _answer, { kind }) => told.push(`${event.type} ${event.subject} ${kind}`),
    sending: (sends) => told.push(sends ? 'sends' : 'sends no more'),
    failed: (error) => told.push((error as Error).message),
  });
  t.teardown(async () => {
    await sender.stop(100);
    await store.maintenance.close();
  });
  sender.start();
  return { store, sender, told };
} // prettier-ignore

t.test(
  'sends one event per token at a time, for four tokens at once, or for one if the endpoint fails',
  async (t) => {
    let answer = DELIVERED;
    const open = new Map<string, () => void>();
    const { store } = await startSender(t, (_endpoint, { body }) => {
      const { type, data } = JSON.parse(body) as { type: string; data: { token_id: string } };
      return new Promise((resolve) => {
        open.set(`${type} ${data.token_id}`, () => resolve(answer));
      });
    });
    const answerAll = (): void => {
      for (const [name, end] of open) if (open.delete(name)) end();
    };
    await createToken(store, token('T1'), null, NOW);
    await store.tokens.revoke(['T1']);
    await until(() => open.size === 1, 'it is sent');
    await new Promise((wait) => setTimeout(wait, 300));
    t.same([...open.keys()], ['token.created T1']);
    answerAll();
    await until(() => open.has('token.revoked T1'), 'the next one is sent');
    for (const id of ['A', 'B', 'C', 'D', 'E']) await createToken(store, token(id), null, NOW);
    await until(() => open.size === 4, 'four at once');
    await new Promise((wait) => setTimeout(wait, 300));
    t.equal(open.size, 4);
    answer = FAILED;
    answerAll();
    await until(() => open.size > 0, 'others are sent');
    await new Promise((wait) => setTimeout(wait, 300));
    t.equal(open.size, 1, 'one at a time while the endpoint fails');
    answer = DELIVERED;
    const emptied = async () => {
      answerAll();
      return (await store.webhooks.status())[0]?.queued === 0;
    };
    await until(emptied, 'everything is delivered', 10_000);
  },
);

t.test('an outcome that cannot be stored is stored later, and the event is not resent', async (t) => {
  let sent = 0;
  let failures = 3;
  const { store, told } = await startSender(
    t,
    async () => {
      sent += 1;
      return DELIVERED;
    },
    (inner) => ({
      settle: async (...args) => {
        if (failures-- > 0) throw new StoreUnavailable('the disk is full');
        return inner.settle(...args);
      },
    }),
  );
  await createToken(store, token('T1'), null, NOW);
  await until(() => told.includes('token.created token:T1 delivered'), 'it is noted');
  t.equal(sent, 1);
  t.equal(told.filter((each) => each === 'the disk is full').length, 3);
});

t.test('what is damaged for one endpoint does not stop the others', async (t) => {
  const damaged = async () => {
    throw new Error('damaged');
  };
  const { store, told } = await startSender(
    t,
    async () => DELIVERED,
    (real) => ({
      keep: damaged,
      listDue: async (lease, endpoint, ...rest) =>
        endpoint === 'd' ? damaged() : real.listDue(lease, endpoint, ...rest),
    }),
    [{ ...ENDPOINT, id: 'd' }, ENDPOINT],
  );
  await createToken(store, token('T1'), null, NOW);
  await until(() => told.includes('token.created token:T1 delivered'), 'it is delivered');
  t.ok(told.includes('damaged'));
});

t.test('an attempt that fails without an outcome is repeated, but not at once', async (t) => {
  let attempts = 0;
  const { store, told } = await startSender(t, async () => {
    attempts += 1;
    if (attempts < 3) throw new Error('EMFILE');
    return DELIVERED;
  });
  const begun = performance.now();
  await createToken(store, token('T1'), null, NOW);
  await until(() => told.includes('token.created token:T1 delivered'), 'it is delivered');
  t.equal(attempts, 3);
  t.ok(performance.now() - begun > 900, 'it waits half a second after each');
});

t.test('a process that loses the lease aborts its attempts, and stores no outcome', async (t) => {
  let holds = true;
  let ended = 0;
  const { store, told } = await startSender(
    t,
    async (_endpoint, _message, signal) => {
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve());
      });
      ended += 1;
      return DELIVERED;
    },
    (inner) => ({ acquire: async (...args) => (holds ? inner.acquire(...args) : null) }),
  );
  await createToken(store, token('T1'), null, NOW);
  await until(async () => (await store.webhooks.status())[0]?.queued === 1 && told.includes('sends'), 'it sends');
  await new Promise((wait) => setTimeout(wait, 400));
  holds = false;
  await until(() => ended === 1, 'the attempt is ended');
  await until(() => told.includes('sends no more'), 'it says so');
  t.same(told, ['sends', 'sends no more']);
  t.equal((await store.webhooks.status())[0]?.queued, 1, 'the event is left for the next sender');
}); // prettier-ignore

t.test('a stopping sender passes the lease on at once', async (t) => {
  const { store, sender, told } = await startSender(t, async () => DELIVERED);
  await until(() => told.includes('sends'), 'it sends');
  t.equal(await store.webhooks.acquire('other', 1_000), null);
  await sender.stop(1_000);
  t.match(await store.webhooks.acquire('other', 1_000), /:other$/);
});

t.test('permanent failures become dead letters, 410 disables, and Retry-After is respected', async (t) => {
  const answers: DeliveryResult[] = [
    { status: 503, error: 'the endpoint responded with 503', retryAfter: 0 },
    FAILED,
    { status: 404, error: 'the endpoint responded with 404', retryAfter: null },
    { status: 410, error: 'the endpoint responded with 410', retryAfter: null },
  ];
  const { store, told } = await startSender(t, async () => answers.shift() ?? DELIVERED);
  await createToken(store, token('T1'), null, NOW);
  await until(() => told.length === 4, 'it is given up', 10_000);
  t.same(told.slice(1), ['token.created token:T1 failed', 'token.created token:T1 failed', 'token.created token:T1 dead']);
  t.match(await store.webhooks.listDead('e'), [{ attempts: 3, error: 'the endpoint responded with 404' }]);
  await store.tokens.revoke(['T1']);
  await until(async () => (await store.webhooks.status())[0]?.disabledAt !== null, 'it is disabled');
  await createToken(store, token('T2'), null, NOW);
  await new Promise((wait) => setTimeout(wait, 400));
  t.equal(told.length, 5, 'nothing more is sent');
}); // prettier-ignore

t.test('sends events while expired tokens are left to queue', async (t) => {
  let calls = 0;
  const { store, told } = await startSender(
    t,
    async () => DELIVERED,
    () => ({
      queueExpired: async () => {
        calls += 1;
        return calls < 1_000 ? 1 : 0;
      },
    }),
  );
  await createToken(store, token('T1'), null, NOW);
  await until(() => told.includes('token.created token:T1 delivered'), 'it is sent');
  t.ok(calls > 0 && calls < 1_000, `after ${calls} parts`);
});
