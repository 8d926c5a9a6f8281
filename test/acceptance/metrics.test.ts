import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { readMetrics } from '../../src/observe/metrics.js';
import { countRequest, firstByteDuration, MAX_REQUEST_SERIES } from '../../src/observe/metrics/requests.js';
import { needPackages, runs } from '../helpers/debian.js';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { start, temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

interface Metric {
  readonly type: string;
  readonly labels: Set<string>;
  readonly values: { readonly labels: Readonly<Record<string, string>>; readonly value: number }[];
}

/**
 * Parses metrics in Prometheus' text format, by name; buckets, sums and counts belong to their
 * histogram.
 */
function parseMetrics(text: string): Map<string, Metric> {
  const metrics = new Map<string, Metric>();
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, typed, type = ''] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (typed !== undefined) metrics.set(typed, { type, labels: new Set(), values: [] });
    if (line.startsWith('#')) continue;
    const [, series = '', labelText = '', value] = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    const metric = metrics.get(series) ?? metrics.get(series.replace(/_(bucket|sum|count)$/, ''));
    if (metric === undefined) throw new Error(`a line of no metric: ${line}`);
    const labels = Object.fromEntries([...labelText.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, k = '', v = '']) => [k, v]));
    for (const name of Object.keys(labels)) if (name !== 'le') metric.labels.add(name);
    metric.values.push({ labels: { ...labels, __name__: series }, value: Number(value) });
  }
  return metrics;
} // prettier-ignore

/** The rows of the tables in docs/observability.md: type and labels by name. */
function documented(): Map<string, { type: string; labels: string[] }> {
  const rows = readFileSync('docs/observability.md', 'utf8').matchAll(/^\| `(latchkey_[a-z0-9_]+)`\s*\| (\w+)\s*\| ([^|]*)\|/gm);
  return new Map([...rows].map(([, name = '', type = '', labels = '']) => [name, { type, labels: [...labels.matchAll(/`([a-z_]+)`/g)].map(([, label = '']) => label) }]));
} // prettier-ignore

/** The value of one series by its name and some labels; NaN if it is missing. */
function valueOf(text: string, name: string, labels: Record<string, string> = {}): number {
  const metric =
    parseMetrics(text).get(name.replace(/_(bucket|sum|count)$/, '')) ?? parseMetrics(text).get(name);
  const wanted = Object.entries({ ...labels, __name__: name });
  const found = metric?.values.filter((each) =>
    wanted.every(([label, value]) => each.labels[label] === value),
  );
  return found?.length === 1 ? (found[0]?.value ?? NaN) : NaN;
}

/** All scrapes of this file, for series that exist only at times. */
const seen: string[] = [];
const scrape = async (admin: string) => {
  const { text } = await send(admin, '/metrics');
  seen.push(text);
  return text;
};

/**
 * Pipelines requests on several connections; resolves when all are answered or their connection is
 * closed.
 */
async function flood(url: string, connections: number, each: number, line: () => string): Promise<void> {
  const one = () => {
    let answers = 0;
    const onData = (chunk: Buffer) => {
      answers += chunk.toString('latin1').match(/HTTP\/1\.1 \d/g)?.length ?? 0;
      if (answers >= each) socket.destroy();
    };
    const { socket, closed } = openRaw(url, { onData, bytes: Array.from({ length: each }, line).join('') });
    return closed;
  };
  await Promise.all(Array.from({ length: connections }, one));
}

t.test('requests, upstreams, logins and the process', async (t) => {
  const { url, server, token, login, configFile } = await startFixture(t, {
    routes: [{ path: '/service/:id', action: 'service', service: 'id' }, { path: '/status', auth: 'none' }],
  });
  const key = await token('engineer');
  for (let i = 0; i < 3; i++) await send(url, '/service/SVC1', { headers: { 'Service-Key': key } });
  await send(url, '/service/SVC1', { headers: { 'Service-Key': 'x' } });
  await send(url, '/%zz');
  await send(url, '/tokens', { headers: { Cookie: await login('superuser') } });
  await send(url, '/login', { body: new URLSearchParams({ user: 'user@example.com', password: 'wrong' }) });

  await t.test('counts by route, outcome and status class', async (t) => {
    const text = await scrape(server.admin);
    const requests = (labels: Record<string, string>) => valueOf(text, 'latchkey_requests_total', labels);
    t.equal(requests({ route: '/service/:id', outcome: 'forwarded', status_class: '2xx' }), 3);
    t.equal(requests({ route: '/service/:id', outcome: 'unauthenticated', status_class: '4xx' }), 1);
    t.equal(requests({ route: 'none', outcome: 'malformed', status_class: '4xx' }), 1);
    t.equal(requests({ route: 'list_tokens', outcome: 'answered', status_class: '2xx' }), 1);
    t.equal(valueOf(text, 'latchkey_request_duration_seconds_count', { outcome: 'forwarded' }), 3);
    t.equal(valueOf(text, 'latchkey_request_duration_seconds_bucket', { outcome: 'forwarded', le: '+Inf' }), 3);
    t.equal(valueOf(text, 'latchkey_decision_duration_seconds_count'), 8, 'all but the malformed one were decided on');
    const [whole, upstream] = [valueOf(text, 'latchkey_request_duration_seconds_sum', { outcome: 'forwarded' }), valueOf(text, 'latchkey_upstream_first_byte_seconds_sum', { upstream: 'api' })];
    t.ok(upstream > 0 && upstream < whole, 'in seconds, and less than the total');
    t.equal(valueOf(text, 'latchkey_upstream_first_byte_seconds_count', { upstream: 'api' }), 3);
    t.equal(valueOf(text, 'latchkey_logins_total', { outcome: 'succeeded' }), 2);
    t.equal(valueOf(text, 'latchkey_logins_total', { outcome: 'invalid_grant' }), 1);
    t.ok(valueOf(text, 'latchkey_store_operation_duration_seconds_count', { operation: 'find_token' }) >= 3);
    t.ok(valueOf(text, 'latchkey_store_operation_duration_seconds_count', { operation: 'write' }) >= 2);
    t.equal(valueOf(text, 'latchkey_upstream_waiting_requests', { upstream: 'api' }), 0);
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    t.equal(valueOf(text, 'latchkey_build_info', { version, node: process.version }), 1);
    const buckets = parseMetrics(text).get('latchkey_decision_duration_seconds')?.values.map(({ labels }) => labels['le']);
    t.ok(buckets?.includes('0.00005') && buckets.includes('30'), 'from 50 µs to 30 s');
  });

  await t.test('a reload updates its timestamp, a failed one only its success', async (t) => {
    const at = (text: string) => valueOf(text, 'latchkey_config_last_reload_success_timestamp_seconds');
    const before = at(await scrape(server.admin));
    t.ok(Math.abs(before - Date.now() / 1000) < 300, 'Unix time in seconds');
    await send(server.admin, '/-/reload', { method: 'POST' });
    await until(async () => at(await scrape(server.admin)) > before, 'updated');
    const after = at(await scrape(server.admin));
    const good = readFileSync(configFile, 'utf8');
    writeFileSync(configFile, `${good}nonsense: 1\n`);
    await send(server.admin, '/-/reload', { method: 'POST' });
    await until(async () => valueOf(await scrape(server.admin), 'latchkey_config_last_reload_successful') === 0, 'updated');
    t.equal(at(await scrape(server.admin)), after);
    writeFileSync(configFile, good);
  });

  await t.test('client input creates no series and appears nowhere', async (t) => {
    const random = () => Math.random().toString(36).slice(2, 12);
    const methods = ['GET', 'POST', 'PUT', 'DELETE', 'PURGE', 'HEAD', 'OPTIONS', 'MKCOL', 'REPORT'];
    const line = () => {
      const method = methods[Math.floor(Math.random() * methods.length)];
      const path = Math.random() < 0.5 ? `/service/probe${random()}` : `/probe${random()}/%70robe?q=probe${random()}`;
      return `${method} ${path} HTTP/1.1\r\nHost: probe${random()}.example\r\nService-Key: probe${random()}\r\nUser-Agent: probe${random()}\r\nX-Probe${random()}: a\r\n\r\n`;
    };
    const series = async () => [...parseMetrics(await scrape(server.admin)).entries()].filter(([name]) => !name.startsWith('latchkey_nodejs')).flatMap(([, { values }]) => values).length;
    const total = async () => (parseMetrics(await scrape(server.admin)).get('latchkey_requests_total')?.values ?? []).reduce((sum, { value }) => sum + value, 0);
    await flood(url, 2, 50, line);
    const [before, counted] = [await series(), await total()];
    await flood(url, 40, 50, line);
    await until(async () => (await total()) >= counted + 2_000, 'they are counted');
    const after = await series();
    t.ok(after - before < 60, `${before} series before, ${after} after`);
    t.ok(after < 700, 'within the limit in docs/observability.md');
    t.notMatch(await scrape(server.admin), /probe/i);
  }); // prettier-ignore

  await t.test('counts active tokens at start-up', async (t) => {
    t.equal(valueOf(await scrape(server.admin), 'latchkey_tokens_active'), 1, 'the legacy key of the directory');
    const expiresAt = Date.now() + 4_000;
    await token('superuser', { expires_at: new Date(expiresAt).toISOString() });
    await token('superuser');
    await until(() => Date.now() > expiresAt, 'the token expires');
    await server.stop();
    const again = await start(t, configFile);
    t.equal(valueOf(await scrape(again.admin), 'latchkey_tokens_active'), 3, 'without the expired one');
  });
}); // prettier-ignore

t.test('a store in Redis: cache, invalidation lag, age of the link, errors', async (t) => {
  const redis = await startRedis(t);
  const { url, server, token, create } = await startFixture(t, { store: { type: 'redis', url: redis.url, sealing_key: '0'.repeat(64) } });
  const metric = async (name: string, labels = {}) => valueOf(await scrape(server.admin), name, labels);
  await until(async () => (await metric('latchkey_store_links_up')) === 1, 'the link is up');
  const headers = { 'Service-Key': await token('engineer') };
  for (let i = 0; i < 5; i++) await send(url, '/x', { headers });
  await send(url, '/tokens/self', { method: 'DELETE', headers });
  await until(async () => (await metric('latchkey_invalidation_lag_seconds_count')) === 1, 'notified of a revoked token');
  const sum = await metric('latchkey_invalidation_lag_seconds_sum');
  t.ok(sum > 0 && sum < 5, `${sum} seconds`);
  t.ok((await metric('latchkey_cache_lookups_total', { result: 'hit' })) >= 4);
  t.ok((await metric('latchkey_invalidation_link_age_seconds')) < 5);
  await redis.kill();
  t.equal((await create('superuser')).status, 503);
  await until(async () => (await metric('latchkey_invalidation_link_age_seconds')) > 2, 'the age grows');
  t.equal(await metric('latchkey_store_links_up'), 0);
  const failed = parseMetrics(await scrape(server.admin)).get('latchkey_store_errors_total')?.values.map(({ value }) => value);
  t.ok((failed ?? []).some((value) => value > 0), 'failures are counted');
  t.notMatch(seen.join(), PASSWORD);
}); // prettier-ignore

t.test('docs/observability.md lists every metric with its type and labels, and no other', async (t) => {
  const real = seen.map(parseMetrics);
  const page = documented();
  // The page names only some of the metrics that Node.js has of itself.
  const isMeant = (name: string) => page.has(name) || !/^latchkey_(?:process|nodejs)_/.test(name);
  const names = new Set(real.flatMap((metrics) => [...metrics.keys()].filter(isMeant)));
  // Exists only with TLS; the TLS tests look for it.
  t.ok(page.delete('latchkey_certificate_expiry_timestamp_seconds'));
  t.same([...page.keys()].toSorted(), [...names].toSorted());
  for (const [name, { type, labels }] of page) {
    t.equal(real.find((metrics) => metrics.has(name))?.get(name)?.type, type, name);
    const found = new Set(real.flatMap((metrics) => [...(metrics.get(name)?.labels ?? [])]));
    // No event of this kind occurs here.
    if (
      [
        'latchkey_unreadable_requests_total',
        'latchkey_upstream_retries_total',
        // Tested in test/pipeline/shares.test.ts.
        'latchkey_evictions_total',
        // Tested in test/acceptance/jwt-issuers.test.ts.
        'latchkey_jwt_verifications_total',
        'latchkey_jwt_key_fetches_total',
        // Tested in test/acceptance/oidc.test.ts.
        'latchkey_oidc_logins_total',
        'latchkey_oidc_logouts_total',
        'latchkey_oidc_discoveries_total',
        // Tested in test/acceptance/policy-shadow.test.ts.
        'latchkey_shadow_decisions_total',
        // Tested in test/acceptance/webhooks.test.ts.
        'latchkey_webhook_deliveries_total',
        'latchkey_webhook_queued',
        'latchkey_webhook_oldest_seconds',
        'latchkey_webhook_dead_letters',
        'latchkey_webhook_endpoint_disabled',
        'latchkey_webhook_dropped_total',
      ].includes(name)
    )
      continue;
    t.same([...found].toSorted(), labels.toSorted(), `labels of ${name}`);
  }
});

t.test('combines routes and upstreams beyond the limit into one series', async (t) => {
  for (let i = 0; i < MAX_REQUEST_SERIES * 2; i++) countRequest(`/route${i}`, 'forwarded', 200, 0.001);
  for (let i = 0; i < 1_000; i++) firstByteDuration.of(`upstream${i}`).observe(0.001);
  const metrics = (await readMetrics()) as { name: string; values: { labels: Record<string, string>; value: number }[] }[];
  const of = (name: string) => metrics.find((metric) => metric.name === name)?.values ?? [];
  const requests = of('latchkey_requests_total');
  t.equal(requests.length, MAX_REQUEST_SERIES + 1);
  t.equal(requests.find(({ labels }) => labels['route'] === 'other')?.value, MAX_REQUEST_SERIES);
  t.equal(new Set(of('latchkey_upstream_first_byte_seconds').map(({ labels }) => labels['upstream'])).size, 101);
}); // prettier-ignore

interface Dashboard {
  readonly panels: readonly { readonly id: number; readonly title: string; readonly type: string; readonly targets?: readonly { readonly expr: string }[]; readonly datasource?: { readonly uid: string } }[];
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly templating: { readonly list: readonly { readonly definition?: string }[] };
} // prettier-ignore

t.test('the dashboard and the alert rules use existing metrics', async (t) => {
  const dashboard = JSON.parse(readFileSync('helm/latchkey/files/dashboard.json', 'utf8')) as Dashboard;
  const rules = (parse(readFileSync('helm/latchkey/files/alerts.yaml', 'utf8')) as { groups: { rules: { alert: string; expr: string; annotations: { summary: string } }[] }[] }).groups.flatMap((group) => group.rules);
  const expressions = [
    ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    ...dashboard.annotations.list.map(({ expr }) => expr),
    ...dashboard.templating.list.flatMap(({ definition }) => (definition === undefined ? [] : [definition])),
    ...rules.map(({ expr }) => expr),
  ];
  t.ok(expressions.length > 50 && rules.length > 10);
  t.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length, 'panel ids are unique');
  for (const { title, type, datasource } of dashboard.panels) if (type !== 'row') t.equal(datasource?.uid, '${datasource}', title);
  const page = documented();
  const text = readFileSync('docs/observability.md', 'utf8');
  for (const expr of expressions) {
    const labelsThere = new Set(['instance', 'job', 'le']);
    const selectors = [...expr.matchAll(/\b(latchkey_[a-z0-9_]+|up\b)(\{[^}]*\})?/g)];
    t.ok(selectors.length > 0, expr);
    for (const [, name = '', selector = ''] of selectors) {
      const metric = page.get(name) ?? page.get(name.replace(/_(bucket|sum|count)$/, ''));
      t.ok(name === 'up' || (metric !== undefined && (page.has(name) || metric.type === 'histogram')), `${name} is a metric`);
      const allowed = ['instance', 'job', ...(metric?.labels ?? []), ...(metric?.type === 'histogram' ? ['le'] : [])];
      for (const label of allowed) labelsThere.add(label);
      for (const [, label = '', operator, value = ''] of selector.matchAll(/([a-z_]+)(=~|!~|!=|=)"([^"]*)"/g)) {
        t.ok(allowed.includes(label), `${label} of ${name}`);
        if (operator === '=' && label !== 'job') t.ok(text.includes(`\`${value}\``), `${label}="${value}"`);
      }
    }
    for (const [, list = ''] of expr.matchAll(/\b(?:by|without|on) \(([^)]*)\)/g))
      for (const label of list.split(',').map((each) => each.trim())) t.ok(labelsThere.has(label), `${label} in ${expr}`);
  }
  needPackages(() => runs('promtool', '--version'), 'prometheus');
  t.match(execFileSync('promtool', ['check', 'config', 'examples/monitoring/prometheus.yml']).toString(), /SUCCESS: \d+ rules found/);
  const asked = expressions.filter((expr) => !expr.startsWith('label_values')).map((expr, i) => ({ record: `probe:${i}`, expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*') }));
  const file = join(temporaryFolder(t), 'dashboard.yaml');
  writeFileSync(file, stringify({ groups: [{ name: 'dashboard', rules: asked }] }));
  t.match(execFileSync('promtool', ['check', 'rules', file]).toString(), /SUCCESS: \d+ rules found/, 'all expressions are valid');
  const metrics = seen[0] ?? '';
  t.equal(execFileSync('promtool', ['check', 'metrics'], { input: metrics }).toString(), '', 'names and units follow the conventions');
}); // prettier-ignore
