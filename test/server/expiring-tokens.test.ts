import t from 'tap';
import type { AuditEntry } from '../../src/observe/audit.js';
import { storeMetrics } from '../../src/observe/metrics.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { createExpiryScan } from '../../src/server/stores/cleaning.js';
import { startInProcess } from '../helpers/in-process.js';

const DAY_MS = 86_400_000;
const FIELD = 'service-token-expiration';
const server = await startInProcess(t, { tokens: { warn_before: '14d' } });
const { request, create, token, login, opened } = server;
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString();
const use = (key: string, path = '/x', method = 'GET') =>
  request(path, { method, headers: { 'Service-Key': key, 'User-Agent': 'nightly/1.0' } });

t.test('every response names an expiry that is near, and no other', async (t) => {
  const { access_token: key, expires_at: expiry } = (await create('superuser', { expires_at: inDays(13) })).json;
  for (const [path, status] of [['/x', 200], ['/tokens/self', 200], ['/tokens/none', 403]] as const) {
    const reply = await use(key, path);
    t.same([reply.status, reply.headers[FIELD]], [status, expiry], path);
  }
  const purge = await token('superuser', { expires_at: inDays(1), scope: 'purge_all' });
  t.match(await use(purge), { status: 403, headers: { [FIELD]: /\+00:00$/ } });
  for (const later of [await token('superuser', { expires_at: inDays(15) }), await token('superuser')])
    t.equal((await use(later)).headers[FIELD], undefined);
  t.equal((await request('/x', { headers: { Cookie: await login('superuser') } })).headers[FIELD], undefined);
  t.equal((await request('/x', { headers: { 'Service-Key': 'unknown' } })).headers[FIELD], undefined);
  const off = await startInProcess(t);
  const near = await off.token('superuser', { expires_at: inDays(1) });
  t.equal((await off.request('/x', { headers: { 'Service-Key': near } })).headers[FIELD], undefined, 'off unless set');
}); // prettier-ignore

t.test('the fleet reports each expiring token once, with its last client, and counts all of them', async (t) => {
  const make = async (days: number): Promise<{ id: string; access_token: string; expires_at: string }> =>
    (await create('engineer', { expires_at: inDays(days) })).json;
  const made = [await make(0.5), await make(3), await make(20)] as const;
  await use(made[0].access_token);
  await opened.store.usage.recordUses({
    tokens: new Map([[made[0].id, { at: Date.now(), ip: '127.0.0.1', userAgent: 'nightly/1.0' }]]),
    sessions: new Map(),
  });
  const entries: AuditEntry[] = [];
  const audit = { ...opened.audit, note: (entry: AuditEntry) => void entries.push(entry) };
  let before: number | null = null;
  const sidecars = [1, 2, 3].map(() => createExpiryScan({ store: opened.store, audit }, () => before));
  const look = async () => Promise.all(sidecars.map(async (each) => each(Date.now())));
  await look();
  t.same(entries, [], 'none unless it is set');
  before = 14 * DAY_MS;
  await look();
  await look();
  const ids = entries.map((entry) => (entry['target'] as { token_id: string }).token_id);
  t.equal(new Set(ids).size, ids.length, 'each once');
  const of = (id: string) => entries.find((_, i) => ids[i] === id);
  t.match(of(made[0].id), { event: 'token.expiring', outcome: 'success', actor: null, target: { user_id: 'engineer', customer_id: 'C1', expires_at: made[0].expires_at, user_agent: 'nightly/1.0' } });
  t.match(of(made[1].id), { target: { last_seen_at: null, user_agent: null } });
  t.equal(of(made[2].id), undefined, 'one that expires later is reported later');
  const restarted = createExpiryScan({ store: opened.store, audit }, () => before);
  await restarted(Date.now());
  t.equal(entries.length, ids.length, 'a restart forgets nothing');
  await restarted(Date.now() + 7 * DAY_MS);
  const late = entries.slice(ids.length).filter(({ target }) => (target as { token_id: string }).token_id === made[2].id);
  t.equal(late.length, 1, 'now it is');
  const { values } = await storeMetrics.expiringTokens.get();
  const counts = Object.fromEntries(values.map(({ labels, value }) => [labels['within'], value]));
  t.ok((counts['1d'] ?? 0) <= (counts['7d'] ?? 0) && (counts['7d'] ?? 0) <= (counts['30d'] ?? 0), JSON.stringify(counts));
  t.ok((counts['30d'] ?? 0) >= 1);
}); // prettier-ignore

t.test('a token whose report fails is reported by the next scan, once', async (t) => {
  const made: string[] = [];
  for (let i = 0; i < 3; i++)
    made.push((await create('billing', { expires_at: inDays(2 + i) })).json.id as string);
  const reported: string[] = [];
  const note = ({ target }: AuditEntry) => void reported.push((target as { token_id: string }).token_id);
  let left = 1;
  const { tokens } = opened.store;
  const failing = {
    ...opened.store,
    tokens: {
      ...tokens,
      get: (id: string) => {
        if (made.includes(id) && left-- === 0) throw new StoreUnavailable('away');
        return tokens.get(id);
      },
    },
  };
  const audit = { ...opened.audit, note };
  const expiring = createExpiryScan({ store: failing, audit }, () => 14 * DAY_MS);
  await t.rejects(expiring(Date.now()), StoreUnavailable);
  t.ok(reported.filter((id) => made.includes(id)).length < made.length, 'the store fails in the middle');
  await expiring(Date.now());
  await expiring(Date.now());
  t.same(reported.filter((id) => made.includes(id)).toSorted(), made.toSorted());
});
