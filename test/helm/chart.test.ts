import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Ajv } from 'ajv';
import t from 'tap';
import { isMap, parse, parseDocument } from 'yaml';
import { type KubernetesObject, render, type Rendered } from '../helpers/helm.js';
import { faultsOf } from '../helpers/kubernetes.js';
import { loadDirectory, directoryRules } from '../../src/config/directory.js';
import { ConfigError, formatFault } from '../../src/config/fault.js';
import { loadConfig, loadShadow } from '../../src/config/load.js';
import { keysOf } from '../../src/config/schema-walk.js';
import { configSchema } from '../../src/config/schema/config.js';
import { selfSigned } from '../helpers/certificates.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';
import { forEachRow } from '../helpers/table.js';
import {
  CHART,
  EVERYTHING,
  EXAMPLE,
  HAS_ALERTS,
  HAS_DASHBOARD,
  MISFITS,
  NO_EXPRESSIONS,
  REFUSED,
  RIGHT,
  TELLING_URLS,
} from './cases.js';
import { NAME, secretPaths, textPaths, valueAt } from './secret-paths.js';

/** Reported for interface settings that this version does not support yet. */
const UNSERVED = /is not available in this version/;

const right = render(RIGHT).map((result, i) => ({ ...RIGHT[i]!, ...result }));

/** Returns the pod templates of the objects, with their labels. */
function podsOf(objects: readonly KubernetesObject[]): { metadata: KubernetesObject['metadata']; spec: any }[] { // oxlint-disable-line typescript/no-explicit-any -- as rendered
  return objects.flatMap((object) => (object.kind === 'Pod' ? [object] : object['spec']?.template ? [object['spec'].template] : []));
} // prettier-ignore

const containersOf = (spec: any): any[] => [...spec.containers, ...(spec.initContainers ?? [])]; // oxlint-disable-line typescript/no-explicit-any -- as rendered
const kindsOf = (objects: readonly KubernetesObject[]) => objects.map(({ kind }) => kind).toSorted();
const of = (name: string) => right.find((each) => each.name === name)!;
const only = ({ objects }: Rendered, kind: string) => objects.find((object) => object.kind === kind)!;

t.test('every rendered object is valid for Kubernetes', async (t) => {
  forEachRow(right, ({ name, error, files }) => {
    t.equal(error, '', name);
    for (const [file, text] of Object.entries(files)) t.notMatch(text, /<no value>|<nil>|%!/, `${name}: ${file}`);
  });
  const bad = structuredClone(only(of('fleet'), 'Deployment'));
  bad['spec'].template.spec.terminationGracePeriod = 30;
  const worse = structuredClone(only(of('fleet'), 'Deployment'));
  worse['spec'].template.spec.containers[0].ports[0].containerPort = 'eighty';
  // Adds two invalid objects to the valid ones, to prove that the check detects faults.
  const faults = faultsOf([...right.flatMap(({ objects }) => objects), bad, worse]);
  t.match(faults, [/containerPort must be integer/, /terminationGracePeriod.* does not exist/, /'string' is not assignable to type 'number'/]);
  t.equal(faults.length, 3);
}); // prettier-ignore

t.test('decision.grpc alone opens no other decision port', async (t) => {
  const portsOf = (name: string) => podsOf(of(name).objects).flatMap(({ spec }) => containersOf(spec)).flatMap(({ ports }) => ports ?? []).map(({ name }) => name); // prettier-ignore
  t.same(portsOf('gRPC decision port only'), ['lk-public', 'lk-admin', 'lk-grpc']);
  t.same(portsOf('everything'), ['lk-public', 'lk-admin', 'lk-decision', 'lk-grpc']);
  const policy = JSON.stringify(only(of('gRPC decision port only'), 'NetworkPolicy'));
  t.match(policy, /"port":9903/);
  t.notMatch(policy, /"port":9902/);
});

t.test('renders the expected kinds of objects', async (t) => {
  const always = ['ConfigMap', 'NetworkPolicy', 'Pod', 'PodDisruptionBudget', 'Service', 'Service', 'ServiceAccount'];
  t.same(kindsOf(of('gateway').objects), [...always, 'StatefulSet'].toSorted());
  t.same(kindsOf(of('fleet').objects), [...always, 'Deployment', 'HorizontalPodAutoscaler', 'Ingress', 'ServiceMonitor'].toSorted());
  t.same(kindsOf(of('nothing optional').objects), ['ConfigMap', 'Deployment', 'Pod', 'Service', 'Service']);
  t.same(kindsOf(of('sidecar').objects), ['ConfigMap', 'Deployment', 'NetworkPolicy', 'Service']);
  t.same(kindsOf(of('sidecar, monitored').objects), ['ConfigMap', 'Deployment', 'NetworkPolicy', 'PodMonitor', 'Service']);
  const extras = [...(HAS_ALERTS ? ['PrometheusRule'] : []), ...(HAS_DASHBOARD ? ['ConfigMap'] : [])];
  t.same(kindsOf(of('everything').objects), [...always, 'Deployment', 'HorizontalPodAutoscaler', 'HTTPRoute', 'Ingress', 'ServiceMonitor', 'ConfigMap', 'ConfigMap', ...extras].toSorted());
}); // prettier-ignore

t.test('names, selectors, ports and volumes are consistent', async (t) => {
  for (const { name, objects } of right) {
    const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    t.equal(new Set(names).size, names.length, `${name}: names are unique`);
    for (const object of objects) {
      const limit = object.kind === 'StatefulSet' ? 52 : 63;
      t.match(object.metadata.name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, `${name}: ${object.kind}`);
      t.ok(object.metadata.name.length <= limit, `${name}: ${object.kind} ${object.metadata.name}`);
      for (const value of Object.values(object.metadata.labels ?? {}))
        t.match(value, /^(?=.{1,63}$)[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$/, `${name}: label ${value}`);
    }
    const pods = podsOf(objects.filter(({ kind }) => kind !== 'Pod'));
    t.equal(pods.length, 1, name);
    const [{ metadata, spec }] = pods as [(typeof pods)[0]];
    for (const object of objects) {
      const { selector, podSelector } = object['spec'] ?? {};
      const labels = podSelector?.matchLabels ?? selector?.matchLabels ?? selector;
      if (labels === undefined) continue;
      t.notMatch(Object.keys(labels), /version|chart/, `${name}: the selector of ${object.kind} contains no version`);
      const target = object.kind === 'ServiceMonitor' ? objects.find((each) => each.metadata.name.endsWith('-internal'))?.metadata.labels : metadata.labels;
      t.has(target, labels, `${name}: ${object.kind} selects its pods`);
    }
    const latchkey = containersOf(spec).find((container) => container.name === 'latchkey');
    const ports = new Map<string, number>(latchkey.ports.map((port: { name: string; containerPort: number }) => [port.name, port.containerPort]));
    const config = parse(only({ objects } as Rendered, 'ConfigMap')['data']['latchkey.yaml']);
    t.equal(ports.get('lk-public'), config.listen.port, name);
    t.equal(ports.get('lk-admin'), config.admin.port, name);
    t.equal(config.admin.host, '0.0.0.0', 'the kubelet must reach it');
    for (const [probe, path] of Object.entries({ startupProbe: '/healthz', livenessProbe: '/healthz', readinessProbe: '/readyz' }))
      t.same(latchkey[probe].httpGet, { path, port: 'lk-admin' }, `${name}: ${probe}`);
    for (const service of objects.filter(({ kind }) => kind === 'Service'))
      for (const { targetPort } of service['spec'].ports) t.ok(ports.has(targetPort) || [...ports.values()].includes(targetPort), `${name}: port ${targetPort}`);
    const claimed = objects.flatMap((object) => object['spec']?.volumeClaimTemplates ?? []).map((claim) => claim.metadata.name);
    const volumes = [...claimed, ...(spec.volumes ?? []).map((volume: { name: string }) => volume.name)];
    t.equal(new Set(volumes).size, volumes.length, `${name}: volume names are unique`);
    for (const container of containersOf(spec))
      for (const mount of container.volumeMounts ?? []) {
        t.ok(volumes.includes(mount.name), `${name}: the volume ${mount.name}`);
        t.equal(mount.subPath, undefined, 'the kubelet never updates a subPath mount');
      }
    t.equal(volumes.includes('latchkey-data'), JSON.stringify(config).includes('/var/lib/latchkey/'), `${name}: a data volume only for what is written`);
  }
  const monitor = only(of('fleet'), 'ServiceMonitor');
  const internal = of('fleet').objects.find(({ metadata }) => metadata.name.endsWith('-internal'));
  t.equal(internal?.['spec'].ports[0].name, monitor['spec'].endpoints[0].port);
  t.equal(internal?.['spec'].type, 'ClusterIP');
  t.same(monitor['spec'].endpoints[0].relabelings, [{ targetLabel: 'job', replacement: 'latchkey' }]);
  t.same(only(of('everything'), 'Service')['spec'].ports.length, 1, 'a load balancer exposes only the public port');
}); // prettier-ignore

t.test('values added by operators end up in the right objects', async (t) => {
  const { objects } = of('everything');
  const own = objects.filter(({ metadata }) => !/-(?:one|two)$/.test(metadata.name));
  for (const { kind, metadata } of own) t.match(metadata.labels, { 'example.com/team': 'edge' }, kind);
  t.same(objects.filter((each) => !own.includes(each)).map(({ metadata }) => metadata.name).toSorted(), ['everything-one', 'everything-two']);
  const deployment = only({ objects } as Rendered, 'Deployment')['spec'];
  t.same(only({ objects } as Rendered, 'Deployment').metadata.annotations, { 'reloader.example.com/auto': 'true' });
  t.same([...new Set(own.map(({ kind, metadata }) => (kind === 'ServiceMonitor' ? 'its own' : metadata.namespace)))], ['edge', 'its own']);
  const monitor = only({ objects } as Rendered, 'ServiceMonitor');
  t.match(monitor, { metadata: { namespace: 'monitoring' }, spec: { namespaceSelector: { matchNames: ['edge'] }, endpoints: [{ scrapeTimeout: '5s' }] } });
  t.match(only({ objects } as Rendered, 'Service').metadata.labels, { tier: 'edge' });
  t.equal(deployment.revisionHistoryLimit, 3);
  t.match(deployment.template.spec, { terminationGracePeriodSeconds: 300, dnsPolicy: 'None', dnsConfig: { nameservers: ['10.0.0.10'] }, hostAliases: [{ ip: '10.0.0.11' }] });
  t.same(deployment.strategy, { type: 'Recreate' });
  t.notMatch(deployment.selector.matchLabels, { 'example.com/team': 'edge' }, 'a selector is immutable');
  const { metadata, spec } = deployment.template;
  t.match(metadata.labels, { 'example.com/team': 'edge' });
  t.same(spec.initContainers.map(({ name }: { name: string }) => name), ['wait']);
  t.same(spec.containers.map(({ name }: { name: string }) => name), ['latchkey', 'shipper']);
  const [latchkey] = spec.containers;
  t.same(latchkey.envFrom, [{ configMapRef: { name: 'proxies' } }]);
  t.match(latchkey, { startupProbe: { periodSeconds: 1, failureThreshold: 120 }, readinessProbe: { initialDelaySeconds: 3, periodSeconds: 5 } });
  t.match(only({ objects } as Rendered, 'Service')['spec'], { loadBalancerClass: 'example.com/internal', loadBalancerSourceRanges: ['203.0.113.0/24'], externalTrafficPolicy: 'Local', ports: [{ nodePort: 30443 }] });
  t.match(only({ objects } as Rendered, 'Ingress')['spec'].rules[0].http.paths[0], { path: '/v1', pathType: 'Exact' });
  const scaler = only({ objects } as Rendered, 'HorizontalPodAutoscaler')['spec'];
  t.same(scaler.metrics.map(({ resource: { name, target } }: { resource: { name: string; target: { averageUtilization: number } } }) => [name, target.averageUtilization]), [['cpu', 70], ['memory', 80]]);
  t.equal(scaler.behavior.scaleDown.stabilizationWindowSeconds, 600);
  const budget = only({ objects } as Rendered, 'PodDisruptionBudget')['spec'];
  t.match(budget, { minAvailable: '50%' });
  t.equal(budget.maxUnavailable, undefined, 'only one of the two may be set');
  t.equal(only(of('fleet'), 'PodDisruptionBudget')['spec'].maxUnavailable, 1);
  t.same(only(of('fleet'), 'Deployment')['spec'].strategy, { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } });
  const claimed = only(of('a claim with annotations'), 'StatefulSet')['spec'];
  t.same(claimed.volumeClaimTemplates[0].metadata.annotations, { 'helm.sh/resource-policy': 'keep' });
  t.same(claimed.updateStrategy, { type: 'OnDelete' });
}); // prettier-ignore

t.test('helm test checks the deployment from outside the pod', async (t) => {
  const doctor = (tests: object, config: object = {}) => {
    const values = { config: { upstream: 'http://api:3000', ...config }, tests: { doctor: tests } };
    const [result] = render([{ chart: 'helm/latchkey', values }]);
    const { objects = [] } = result ?? {};
    const pod = objects.find(({ kind }) => kind === 'Pod');
    const containers = (pod?.['spec'].containers ?? []) as { name: string; args: string[] }[];
    return { container: containers.find(({ name }) => name === 'doctor') };
  };
  const service = 'http://demo-latchkey:80';
  t.same(doctor({}).container?.args, ['doctor', '--url', service]);
  t.same(
    doctor({ paths: ['/a', '/b'], publicPaths: ['/c'], upstream: 'http://api:3000' }).container?.args,
    ['doctor', '--url', service, '--path', '/a', '--path', '/b', '--public', '/c', '--upstream', 'http://api:3000'],
  );
  t.match(doctor({ keySecret: { name: 's', key: 'k' } }).container, {
    env: [{ name: 'LATCHKEY_DOCTOR_KEY', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } }],
    securityContext: { readOnlyRootFilesystem: true, runAsNonRoot: true },
  });
  const tls = { listen: { tls: { cert: 'secrets/a/b', key: 'secrets/a/c' } } };
  t.equal(doctor({ enabled: false }).container, undefined);
  t.equal(doctor({}, tls).container, undefined, 'skipped: the certificate does not cover the Service name');
}); // prettier-ignore

t.test('pods are restricted and have time to drain', async (t) => {
  for (const { name, objects } of right) {
    for (const { spec } of podsOf(objects)) {
      t.equal(spec.automountServiceAccountToken, false, name);
      const container = containersOf(spec).find((each) => each.name === 'latchkey' || each.name === 'test');
      t.match(container.securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        runAsNonRoot: true,
        runAsUser: 65532,
        capabilities: { drop: ['ALL'] },
        seccompProfile: { type: 'RuntimeDefault' },
      }, name);
      t.ok(container.resources.requests.cpu && container.resources.limits.memory, name);
      if (container.name === 'test') continue;
      const [, seconds = '30', unit = 's'] = /drain_timeout: (\d+)(\w)/.exec(only({ objects } as Rendered, 'ConfigMap')['data']['latchkey.yaml']) ?? [];
      const drain = Number(seconds) * (unit === 'm' ? 60 : 1);
      t.ok(spec.terminationGracePeriodSeconds > container.lifecycle.preStop.sleep.seconds + drain, name);
    }
  }
}); // prettier-ignore

/**
 * Returns what `latchkey check` reports, except settings that this version does not support yet.
 */
function configFaults(file: string): string[] {
  try {
    const loaded = loadConfig(file, { REDIS_PASSWORD: 'x' });
    const { config } = loaded;
    loadShadow(loaded, {});
    if (config.directory.file !== null) loadDirectory(config.directory.file, {}, directoryRules(config));
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.faults.map(formatFault).filter((line) => !UNSERVED.test(line));
  }
} // prettier-ignore

t.test('the configuration passes the check with the mounted files', async (t) => {
  for (const { name, objects } of right) {
    const folder = temporaryFolder(t);
    const data = only({ objects } as Rendered, 'ConfigMap')['data'] as Record<string, string>;
    const [{ spec }] = podsOf(objects.filter(({ kind }) => kind !== 'Pod')) as [ReturnType<typeof podsOf>[0]];
    const volume = spec.volumes.find((each: { name: string }) => each.name === 'latchkey-config');
    for (const { configMap, secret } of volume.projected.sources) {
      for (const { key, path } of configMap?.items ?? []) writeFileSync(join(folder, path), data[key] ?? '');
      for (const { key, path } of secret?.items ?? []) {
        mkdirSync(dirname(join(folder, path)), { recursive: true });
        if (key === 'directory.yaml') writeFileSync(join(folder, path), 'customers: []\n');
        else if (key === 'url') writeFileSync(join(folder, path), 'postgres://latchkey:password@postgres.data.svc:5432/latchkey');
        else if (key === 'ca.crt') cpSync(selfSigned(folder, 'ca').cert, join(folder, path));
        else writeFileSync(join(folder, path), 'ab'.repeat(32));
      }
    }
    t.same(configFaults(join(folder, 'latchkey.yaml')), [], name);
  }
}); // prettier-ignore

t.test('refuses values that cannot work, with a hint', async (t) => {
  const results = render(REFUSED.map(([, values, , chart = CHART]) => ({ chart, values })));
  REFUSED.forEach(([name, , message], i) => t.match(results[i]?.error, message, name));
});

const upstream = 'http://my-api:3000';
const withConfig = (config: object) => ({ chart: CHART, values: { config: { upstream, ...config } } });

t.test('keeps secrets of the configuration out of the ConfigMap', async (t) => {
  const secrets = secretPaths();
  const others = textPaths().filter((path) => !secrets.includes(path));
  t.ok(secrets.length > 1 && others.length > 30, `${secrets.length} secrets, ${others.length} others`);
  t.ok(secrets.includes('store.password') && secrets.includes('store.sealing_key'));
  // Each place has some of the values, and each value is tried at some places.
  const cases = secrets.flatMap((path, i) => NO_EXPRESSIONS.filter((_, j) => EVERY_CASE || (i + j) % 6 === 0).map((value) => ({ path, value })));
  const refused = render(cases.map(({ path, value }) => withConfig(valueAt(path, value))));
  cases.forEach(({ path, value }, i) => {
    t.match(refused[i]?.error, `latchkey: config.${path}`, `${path}: ${JSON.stringify(value)}`);
    t.match(refused[i]?.error, 'is a secret: put it into a Secret');
    t.notOk('latchkey/templates/configmap.yaml' in (refused[i]?.files ?? {}));
  });
  const taken = render(secrets.map((path) => withConfig(valueAt(path, '${A_NAME}'))));
  secrets.forEach((path, i) => t.equal(taken[i]?.error, '', path));
  // A role, a scope or an upstream may have any name.
  const named = others.filter((path) => path.split('.').includes(NAME));
  t.ok(named.length > 10 && ['upstreams', 'policy.roles', 'policy.scopes'].every((map) => named.some((path) => path.startsWith(map))));
  const all = [...others, ...named.map((path) => path.replaceAll(`.${NAME}`, '.secrets'))];
  const plain = render(all.map((path) => withConfig(valueAt(path, 'plain'))));
  all.forEach((path, i) => t.notMatch(plain[i]?.error, /is a secret/, path));
}); // prettier-ignore

t.test('refuses URLs with credentials, queries or fragments in the ConfigMap', async (t) => {
  const places = ['upstream', 'store.url', 'upstreams.api.urls.0', 'directory.http.url', 'tracing.otlp', 'identity.assertion.issuer'];
  const cases = places.flatMap((path, i) => TELLING_URLS.filter((_, j) => EVERY_CASE || (i + j) % 3 === 0).map((url) => ({ path, url })));
  const results = render(cases.map(({ path, url }) => withConfig(valueAt(path, url))));
  cases.forEach(({ path, url }, i) => {
    t.match(results[i]?.error, `latchkey: config.${path} is a URL with a user`, `${path}: ${url}`);
    t.notOk('latchkey/templates/configmap.yaml' in (results[i]?.files ?? {}));
  });
  const right = ['${REDIS_URL}', 'redis://redis:6379/0', 'http://${HOST}:3000/base', 'https://[::1]:8443', '${file:secrets/r/url}'];
  const taken = render(right.map((url) => ({ chart: CHART, values: { config: { upstream, directory: { http: { url } } }, secrets: [{ name: 'r', keys: ['url'] }] } })));
  right.forEach((url, i) => t.equal(taken[i]?.error, '', url));
  const hooks = keysOf(configSchema).filter(({ facts }) => facts.secret === 'path').map(({ path }) => path.join('.').replaceAll('*', '0'));
  t.same(hooks, ['webhooks.0.url']);
  const [paths, plain] = [['https://h/services/geheim', 'https://h/geheim/${A}', '${A}geheim', 'https:\\\\h\\geheim', 'https:h/geheim'], ['${A}', 'https://h', 'https://h/${A}']];
  const [telling, discreet] = [paths, plain].map((urls) => render(urls.map((url) => withConfig(valueAt('webhooks.0.url', url)))));
  paths.forEach((url, i) => t.match(telling?.[i]?.error, 'latchkey: config.webhooks.0.url has a path, which may be secret', url));
  plain.forEach((url, i) => t.equal(discreet?.[i]?.error, '', url));
  const routes = ['/users/:id/@me', '/purge/*', '/a:b@c'].map((path) => ({ path, action: 'api' }));
  t.equal(render([withConfig({ routes })])[0]?.error, '', 'paths are not treated as URLs');
  const [key] = render([withConfig({ listen: { tls: { cert: 'tls.crt', key: '-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n' } } })]);
  t.match(key?.error, /config\.listen\.tls\.key must be the path of a file, not the key/);
}); // prettier-ignore

t.test('derives the scheme of the public port from listen.tls', async (t) => {
  const tls = { cert: 'tls.crt', key: 'tls.key' };
  const rows = [['http', {}], ['http', { listen: null }], ['http', { listen: { port: 8080 } }], ['http', { listen: { tls: null } }], ['https', { listen: { tls } }]] as const;
  const results = render(rows.map(([, config]) => withConfig(config)));
  rows.forEach(([scheme, config], i) => {
    const name = JSON.stringify(config);
    const { objects, files } = results[i] as Rendered;
    t.equal(results[i]?.error, '', name);
    t.equal(only({ objects } as Rendered, 'Service')['spec'].ports[0].appProtocol, scheme, name);
    t.match(only({ objects } as Rendered, 'Pod')['spec'].containers[0].args[0], `fetch('${scheme}://`, name);
    const notes = files['latchkey/templates/NOTES.txt'] ?? '';
    t.same(new Set(notes.match(/\bhttps?(?=:\/\/)/g)), new Set([scheme]), name);
  });
}); // prettier-ignore

t.test('warns of a proxy in front whose headers are ignored', async (t) => {
  const ingress = { enabled: true, hosts: ['a.example.com'] };
  const httpRoute = { enabled: true, parentRefs: [{ name: 'gateway' }] };
  const trusting = { listen: { trusted_proxies: ['10.0.0.0/8'] } };
  const rows = [[false, {}, {}], [true, { ingress }, {}], [true, { httpRoute }, {}], [true, { ingress }, { listen: null }], [true, { ingress }, { listen: { trusted_proxies: [] } }], [false, { ingress }, trusting], [false, { httpRoute }, trusting]] as const;
  const results = render(rows.map(([, values, config]) => ({ chart: CHART, values: { ...values, config: { upstream, ...config } } })));
  rows.forEach(([warned, ...row], i) => {
    t.equal(results[i]?.error, '');
    t.equal(/WARNING: config\.listen\.trusted_proxies is not set/.test(results[i]?.files['latchkey/templates/NOTES.txt'] ?? ''), warned, JSON.stringify(row));
  });
}); // prettier-ignore

t.test('two releases can share a namespace', async (t) => {
  const [one, two] = render([{ chart: CHART, release: 'one', values: EVERYTHING }, { chart: CHART, release: 'two', values: EVERYTHING }]) as [Rendered, Rendered];
  const names = ({ objects }: Rendered) => objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  t.same(names(one).filter((name) => names(two).includes(name)), []);
  t.notSame(only(one, 'Deployment')['spec'].selector, only(two, 'Deployment')['spec'].selector);
}); // prettier-ignore

t.test('the values schema accepts valid values and refuses others', async (t) => {
  const check = new Ajv({ strict: true, strictTypes: false, allErrors: true }).compile(parse(readFileSync(`${CHART}/values.schema.json`, 'utf8')));
  const sees = (value: unknown) => (check(value) ? null : check.errors);
  for (const { name, values } of right) {
    const own = Object.entries(values).find(([path]) => path.endsWith('latchkey'))?.[1];
    t.same(sees(own), null, name);
  }
  const misfits = render(MISFITS.map((values) => ({ chart: CHART, values })));
  forEachRow(misfits, ({ values }) => t.not(sees(values['latchkey']), null, JSON.stringify(values)));
  const expressions = { config: { upstream: '${API}', workers: '${WORKERS}', limits: { drain_timeout: '30s' }, store: { type: 'redis', url: '${file:secrets/r/url}' } } };
  t.same(sees(expressions), null, 'an expression stands for every value');
  const { status, stderr } = spawnSync(process.execPath, ['scripts/chart-schema.mjs', '--check'], { encoding: 'utf8' });
  t.equal(status, 0, stderr);
  const document = parse(readFileSync(`${CHART}/values.schema.json`, 'utf8'));
  const values = parse(readFileSync(`${CHART}/values.yaml`, 'utf8'));
  t.same(Object.keys(document.properties).filter((key) => key !== 'global').toSorted(), Object.keys(values).toSorted(), 'values.yaml and the schema have the same keys');
}); // prettier-ignore

/** The path of every value in values.yaml. */
function leaves(): string[][] {
  const found: string[][] = [];
  const walk = (node: unknown, path: string[]) => {
    if (isMap(node) && node.items.length > 0) node.items.forEach((pair) => walk(pair.value, [...path, String(pair.key)]));
    else found.push(path);
  };
  walk(parseDocument(readFileSync(`${CHART}/values.yaml`, 'utf8')).contents, []);
  return found;
} // prettier-ignore

t.test('every value in values.yaml changes the output', nightly, async (t) => {
  const defaults = parseDocument(readFileSync(`${CHART}/values.yaml`, 'utf8'));
  const lmdb = { config: { upstream: 'http://a:1' } };
  const bases: { chart: string; values: object }[] = [
    { chart: CHART, values: { ...EVERYTHING, autoscaling: { enabled: true, minReplicas: 3 }, nameOverride: '', prometheusRule: { enabled: false }, dashboard: { enabled: false } } },
    { chart: CHART, values: { ...EVERYTHING, autoscaling: { enabled: false }, image: {}, serviceAccount: { create: false }, prometheusRule: { enabled: false }, dashboard: { enabled: false } } },
    { chart: CHART, values: lmdb },
    { chart: CHART, values: { ...lmdb, prometheusRule: { enabled: HAS_ALERTS }, dashboard: { enabled: HAS_DASHBOARD } } },
    { chart: CHART, values: { ...lmdb, topologySpreadConstraints: [], mode: 'sidecar', sidecar: { podLabels: { a: 'b' } } } },
  ];
  const places = leaves().filter(([key]) => !((key === 'prometheusRule' && !HAS_ALERTS) || (key === 'dashboard' && !HAS_DASHBOARD)));
  t.ok(places.length > 60);
  const another = (value: unknown) => {
    if (typeof value === 'boolean') return !value;
    if (typeof value === 'number') return value + 7;
    if (Array.isArray(value)) return [{ name: 'other', keys: ['k'], topologyKey: 'zone', mountPath: '/x' }];
    if (value === 'sidecar') return 'gateway';
    return typeof value === 'string' ? 'other' : { other: 'other' };
  };
  const changed = ({ chart, values }: (typeof bases)[0], path: readonly string[]) => {
    const document = parseDocument(JSON.stringify(values));
    const value = document.getIn(path) ?? defaults.getIn(path);
    document.setIn(path, another(value instanceof Object && 'toJSON' in value ? (value.toJSON as () => unknown)() : value));
    return { chart, values: document.toJS() as object };
  };
  const pending = new Set(places);
  for (const base of bases) {
    const paths = [...pending];
    const [plain, ...others] = render([base, ...paths.map((path) => changed(base, path))]);
    others.forEach(({ error, files }, i) => {
      if (error === '' && JSON.stringify(files) !== JSON.stringify(plain?.files)) pending.delete(paths[i]!);
    });
  }
  t.same([...pending].map((path) => path.join('.')), [], 'values without an effect');
}); // prettier-ignore

t.test('README.md lists every value with its default', async (t) => {
  const rows = [...readFileSync(`${CHART}/README.md`, 'utf8').matchAll(/^\| `([A-Za-z_.]+)` +\| `([^`]*)` +\|/gm)].map(([, path = '', value = '']) => [path, value]);
  const defaults = parse(readFileSync(`${CHART}/values.yaml`, 'utf8'));
  const tables = ['podSecurityContext', 'securityContext', 'resources', 'topologySpreadConstraints', 'startupProbe', 'livenessProbe', 'readinessProbe'];
  const expected = leaves().filter(([key = '']) => !tables.includes(key)).map((path) => {
    const value = path.reduce((table, key) => table[key], defaults);
    return [path.join('.'), JSON.stringify(value)];
  });
  const inOrder = (list: readonly (readonly string[])[]) => list.map((row) => row.join(' ')).toSorted();
  t.same(inOrder(rows), inOrder(expected));
}); // prettier-ignore

t.test('replaces pods only for settings that cannot be reloaded', nightly, async (t) => {
  const keys = keysOf(configSchema).filter(({ path }) => !path.some((name) => name === '*' || name === '[]'));
  const fixed = keys.filter(({ facts }) => facts.restart !== undefined);
  const isWithin = (path: readonly string[], outer: readonly string[]) => outer.every((name, i) => path[i] === name);
  // A parent is set with each of its keys. Whether there is TLS at all is fixed, its files are not.
  const reloaded = keys.filter((each) => !fixed.includes(each) && !fixed.some((key) => key.facts.restart === true && isWithin(each.path, key.path)) && !['upstream', 'listen', 'login'].includes(each.path.join('.')));
  t.ok(fixed.length > 10 && reloaded.length > 60, `${fixed.length} fixed, ${reloaded.length} reloaded`);
  const withSetting = ({ path }: { path: readonly string[] }) => {
    const tls = path[1] === 'tls' && path.length > 2 ? { tls: { cert: '/c', key: '/k' } } : {};
    const document = parseDocument(JSON.stringify({ config: { upstream: 'http://a:1', listen: tls, login: {} } }));
    const isTable = ['store', 'admin', 'decision', 'listen.tls', 'audit', 'tracing', 'cache', 'limits'].includes(path.join('.'));
    document.setIn(['config', ...path], isTable ? { x: 1 } : path.at(-1) === 'port' ? 9999 : '9999');
    return { chart: CHART, values: document.toJS() as object };
  };
  const plainOf = (path: readonly string[]) => (path[1] === 'tls' && path.length > 2 ? 1 : 0);
  const tls = { chart: CHART, values: { config: { upstream: 'http://a:1', listen: { tls: { cert: '/c', key: '/k' } } } } };
  const results = render([withSetting({ path: ['sessions', 'x'] }), tls, ...[...fixed, ...reloaded].map(withSetting)]);
  const checksums = results.map((result) => result.error || podsOf(result.objects).map(({ metadata }) => metadata.annotations?.['latchkey/restart-checksum']).join(''));
  t.match(checksums[0], /^[0-9a-f]{64}$/);
  fixed.forEach(({ path }, i) => t.not(checksums[i + 2], checksums[plainOf(path)], path.join('.')));
  reloaded.forEach(({ path }, i) => t.equal(checksums[fixed.length + i + 2], checksums[plainOf(path)], path.join('.')));
}); // prettier-ignore

t.test('renders alerts and the dashboard from the files of the chart', async (t) => {
  const config = { upstream: 'http://a:1' };
  const [rule, dashboard] = render([{ chart: CHART, values: { config, prometheusRule: { enabled: true } } }, { chart: CHART, values: { config, dashboard: { enabled: true } } }]) as [Rendered, Rendered];
  if (HAS_ALERTS) {
    t.same(only(rule, 'PrometheusRule')['spec'], parse(readFileSync(`${CHART}/files/alerts.yaml`, 'utf8')));
    for (const [, job] of rule.files['latchkey/templates/prometheusrule.yaml']?.matchAll(/job="([^"]*)"/g) ?? []) t.equal(job, 'latchkey', 'the job that the monitor sets');
  }
  if (!HAS_ALERTS) t.match(rule.error, /the chart has no files\/alerts\.yaml/);
  const found = dashboard.objects.find(({ metadata }) => metadata.labels?.['grafana_dashboard'] === '1');
  if (HAS_DASHBOARD) t.equal(found?.['data']['latchkey.json'], readFileSync(`${CHART}/files/dashboard.json`, 'utf8'));
  else t.match(dashboard.error, /the chart has no files\/dashboard\.json/);
}); // prettier-ignore

t.test('the example chart depends on the current version', async (t) => {
  const version = (file: string) => parse(readFileSync(file, 'utf8'));
  const chart = version(`${CHART}/Chart.yaml`);
  t.equal(chart.appVersion, version('package.json').version);
  t.equal(version(`${EXAMPLE}/Chart.yaml`).dependencies[0].version, chart.version);
});
