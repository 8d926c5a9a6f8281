import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load.js';
import { needPackages, runs } from '../helpers/debian.js';
import { parseObjects, render } from '../helpers/helm.js';
import { send } from '../helpers/http.js';
import { faultsOf } from '../helpers/kubernetes.js';
import { run, start, startCommand, temporaryFolder } from '../helpers/latchkey.js';
import { freePort } from '../helpers/free-port.mjs';
import { until } from '../helpers/until.js';
import { rememberSecret } from '../helpers/secrets.js';
import { readDockerfile, wordsOf } from '../image/dockerfile.mjs';

const compose = parse(readFileSync('examples/compose.yaml', 'utf8'));
const services = Object.entries<any>(compose.services); // oxlint-disable-line typescript/no-explicit-any -- as written
const page = readFileSync('docs/deploying.md', 'utf8');
const blocks = (kind: string) => [...page.matchAll(new RegExp(`\`\`\`${kind}\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, text = '']) => text); // prettier-ignore

t.test('examples/compose.yaml: everything it names exists, and nothing is open without need', async (t) => {
  for (const [name, service] of services) {
    t.match(service, { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'], restart: 'unless-stopped' }, name);
    for (const network of service.networks) t.ok(network in compose.networks, `${name}: ${network}`);
    for (const secret of service.secrets ?? []) t.ok(secret in compose.secrets, `${name}: ${secret}`);
    for (const needed of Object.keys(service.depends_on ?? {})) t.ok(needed in compose.services, `${name}: ${needed}`);
    for (const volume of service.volumes ?? []) {
      const [from = ''] = volume.split(':');
      t.ok(from.startsWith('./') ? existsSync(join('examples', from)) : from in compose.volumes, `${name}: ${volume}`);
    }
    const text = JSON.stringify([service.command, service.healthcheck]);
    for (const [, secret = ''] of text.matchAll(/\/run\/secrets\/(\w+)/g)) t.ok(service.secrets.includes(secret), `${name}: ${secret}`);
    t.notMatch(text, /[^$]\$[({]/, `${name}: a $ that Compose would expand`);
  }
  const { latchkey, redis, api } = compose.services;
  const settings = ['latchkey', 'directory'].map((name) => readFileSync(`examples/compose/config/${name}.yaml`, 'utf8')).join('\n');
  const named = [...settings.matchAll(/\$\{file:\/run\/secrets\/(\w+)\}/g)].map(([, secret = '']) => secret);
  t.same(named.toSorted(), latchkey.secrets.toSorted(), 'the secrets used in the configuration are mounted');
  t.same(latchkey.ports, ['127.0.0.1:8080:8080']);
  t.notOk(redis.ports ?? api.ports, 'Latchkey is the only entrance');
  t.ok(compose.networks.back.internal);
  t.ok(existsSync(join('examples', latchkey.build, 'Dockerfile')));
  t.equal(latchkey.image, `latchkey:${JSON.parse(readFileSync('package.json', 'utf8')).version}`);
  const health = readDockerfile('Dockerfile').find(({ name }) => name === 'HEALTHCHECK')?.rest ?? '';
  t.same(latchkey.healthcheck.test.slice(1), wordsOf(/CMD (.*)$/.exec(health)?.[1] ?? ''));
  t.ok(Number.parseInt(latchkey.stop_grace_period) > 30, 'longer than limits.drain_timeout');
}); // prettier-ignore

t.test('examples/compose.yaml: its services work together, with the secrets from docs/deploying.md', async (t) => {
  needPackages(() => runs('redis-server', '--version'), 'redis-server', 'redis-tools');
  const folder = temporaryFolder(t);
  cpSync('examples/compose', join(folder, 'examples/compose'), { recursive: true });
  writeFileSync(join(folder, 'latchkey'), `#!/bin/sh\nexec '${process.execPath}' '${resolve('bin/latchkey.js')}' "$@"\n`, { mode: 0o755 });
  const password = 'a password for Ada, 1815';
  rememberSecret(password);
  const [script = '', ...more] = blocks('sh');
  t.equal(more.length, 0);
  execFileSync('bash', ['-euo', 'pipefail', '-c', script], { cwd: folder, env: { ...process.env, PATH: `${folder}:${process.env['PATH']}`, ADA_PASSWORD: password } });
  const secrets = join(folder, 'examples/compose/secrets');
  // The folder is searched for secrets at the end of the test; here they are expected.
  t.teardown(() => rmSync(secrets, { recursive: true }));
  for (const { file } of Object.values<{ file: string }>(compose.secrets)) t.ok(existsSync(join(folder, 'examples', file)), file);
  rememberSecret(readFileSync(join(secrets, 'sealing_key'), 'utf8').trim());
  rememberSecret(readFileSync(join(secrets, 'redis_password'), 'utf8').trim());

  const port = await freePort();
  const data = join(folder, 'data');
  mkdirSync(data);
  const inside = (text: string) => text.replaceAll('$$', '$').replaceAll('/run/secrets', secrets).replaceAll('/data', data);
  const [, , command] = compose.services.redis.command;
  const redis = spawn('sh', ['-c', inside(command).replace('appendonly yes', `appendonly yes\nport ${port}\nbind 127.0.0.1`)], { stdio: 'ignore' });
  endWith(t, redis);
  const [, check] = compose.services.redis.healthcheck.test;
  await until(() => spawnSync('sh', ['-c', inside(check).replace('redis-cli', `redis-cli -p ${port}`)]).status === 0, 'Redis is healthy');
  t.match(spawnSync('redis-cli', ['-p', String(port), 'ping']).stdout.toString(), /NOAUTH/, 'it requires its password');
  t.notMatch(readFileSync(`/proc/${redis.pid}/cmdline`, 'utf8'), readFileSync(join(secrets, 'redis_password'), 'utf8').trim());

  const api = spawn(process.execPath, ['examples/compose/api.mjs'], { env: { ...process.env, PORT: '0' } });
  endWith(t, api);
  const apiPort = await new Promise<string>((found) => api.stdout.on('data', (text: Buffer) => found(/\d+/.exec(text.toString())?.[0] ?? '')));
  const file = join(folder, 'examples/compose/config/latchkey.yaml');
  const edit = (path: string, change: (text: string) => string) => writeFileSync(path, change(readFileSync(path, 'utf8')));
  edit(file, (text) => inside(text).replace('api:3000', `127.0.0.1:${apiPort}`).replace('redis:6379', `127.0.0.1:${port}`).replace('port: 9901', 'port: 0').concat('listen: { host: 127.0.0.1, port: 0 }\n'));
  edit(join(folder, 'examples/compose/config/directory.yaml'), inside);
  const { url } = await start(t, file);
  t.equal((await send(url, '/anything')).status, 401);
  const login = await send(url, '/login', { body: new URLSearchParams({ user: 'ada@example.com', password }) });
  t.equal(login.status, 200);
  const cookie = login.headers['set-cookie']?.[0]?.split(';')[0] ?? '';
  t.match((await send(url, '/anything', { headers: { Cookie: cookie } })).json, { url: '/anything', 'x-auth-login': 'ada@example.com', 'x-auth-role': 'superuser' });
}); // prettier-ignore

t.test('examples/systemd/latchkey.service starts, reloads and stops Latchkey', async (t) => {
  const unit = readFileSync('examples/systemd/latchkey.service', 'utf8');
  const setting = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';
  const folder = temporaryFolder(t);
  const data = join(folder, 'lib');
  const local = (command: string) => command.replaceAll('/etc/latchkey', folder).split(' ');
  writeFileSync(join(folder, 'latchkey.yaml'), `upstream: http://127.0.0.1:9\nlisten: { port: 0 }\nadmin: { port: ${await freePort()} }\nstore: { type: lmdb, path: ${data} }\n`);
  const [program, ...check] = local(setting('ExecStartPre'));
  t.equal(program, '/usr/local/bin/latchkey');
  t.match(await run(check), { code: 0 });
  // Node.js has no datagrams over Unix sockets, so Python stands for systemd.
  const socket = join(folder, 'notify');
  const systemd = spawn('python3', ['-c', `import socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\ns.bind('${socket}')\nwhile True: print(s.recvmsg(4096)[0].decode(), flush=True)`]);
  t.teardown(() => systemd.kill());
  let notified = '';
  systemd.stdout.on('data', (chunk: Buffer) => (notified += chunk.toString()));
  await until(() => existsSync(socket), 'the socket');
  t.match([setting('Type'), setting('NotifyAccess')], ['notify', 'all']);
  const server = await startCommand(t, local(setting('ExecStart')).slice(1), { isolated: true, env: { NOTIFY_SOCKET: socket } });
  await until(() => notified.includes('READY=1'), 'it is ready');
  t.match(await run(local(setting('ExecReload')).slice(1)), { code: 0, stdout: 'reloaded\n' });
  await until(() => server.stdout().includes('"reloaded"'), 'the reload');
  t.same(await server.stop('SIGTERM'), { code: 0, signal: null });
  const { config } = loadConfig(join(folder, 'latchkey.yaml'));
  t.ok(Number(setting('TimeoutStopSec')) * 1000 > config.limits.drain_timeout);
  t.ok(Number(setting('LimitNOFILE')) > 2 * config.limits.connections);
  t.equal(`/var/lib/${setting('StateDirectory')}/store`, /path: (\S+) /.exec(unit)?.[1], 'the store is in a writable folder');
  // If systemd is installed, it checks every setting.
  const copy = join(folder, 'latchkey.service');
  writeFileSync(copy, unit.replaceAll('/usr/local/bin/latchkey', process.execPath));
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', copy]);
  if (status !== null) t.notMatch(String(stderr), /latchkey\.service/);
}); // prettier-ignore

t.test('examples/kubernetes/sidecar.yaml is valid and matches the chart', async (t) => {
  const objects = parseObjects(readFileSync('examples/kubernetes/sidecar.yaml', 'utf8'), 'sidecar.yaml');
  t.same(faultsOf(objects), []);
  const of = (kind: string, list = objects) => list.find((object) => object.kind === kind)!;
  const folder = temporaryFolder(t);
  const pod = of('Deployment')['spec'].template.spec;
  for (const { secret } of pod.volumes[0].projected.sources)
    for (const { path } of secret?.items ?? []) {
      mkdirSync(join(folder, path, '..'), { recursive: true });
      writeFileSync(join(folder, path), 'ab'.repeat(32));
    }
  writeFileSync(join(folder, 'latchkey.yaml'), of('ConfigMap')['data']['latchkey.yaml']);
  const { config } = loadConfig(join(folder, 'latchkey.yaml'));
  t.equal(of('Service')['spec'].targetPort ?? of('Service')['spec'].ports[0].targetPort, config.listen.port);
  t.has(of('Deployment')['spec'].template.metadata.labels, of('NetworkPolicy')['spec'].podSelector.matchLabels);

  const [chart] = render([{ chart: 'examples/kubernetes/chart', release: 'my-api' }]);
  const rendered = of('Deployment', [...(chart?.objects ?? [])])['spec'].template.spec;
  const [plain] = pod.initContainers;
  const [made] = rendered.initContainers;
  for (const key of ['name', 'image', 'restartPolicy', 'ports', 'lifecycle', 'resources', 'volumeMounts']) t.same(plain[key], made[key], key);
  for (const key of ['startupProbe', 'livenessProbe', 'readinessProbe', 'securityContext']) t.has(made[key], plain[key], key);
  t.equal(pod.terminationGracePeriodSeconds, rendered.terminationGracePeriodSeconds);
  const sources = (spec: any) => spec.volumes[0].projected.sources.slice(1); // oxlint-disable-line typescript/no-explicit-any -- as rendered
  t.same(sources(pod), sources(rendered), 'the same Secrets in the same places');
  for (const spec of [pod, rendered]) t.same(spec.containers[0].env[0], { name: 'HOST', value: '127.0.0.1' }, 'the API listens on loopback');
}); // prettier-ignore

t.test('docs/deploying.md: its files are valid', async (t) => {
  const files = new Map(blocks('yaml').map((text) => [/^# (\S+)\n/.exec(text)?.[1] ?? '', text]));
  t.same([...files.keys()], ['config/latchkey.yaml', 'gateway.yaml', 'networkpolicy.yaml']);
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'directory.yaml'), 'customers: []\n');
  writeFileSync(join(folder, 'latchkey.yaml'), files.get('config/latchkey.yaml') ?? '');
  t.match(loadConfig(join(folder, 'latchkey.yaml')).config.store, { path: '/var/lib/latchkey/store' });
  const [gateway] = render([{ chart: 'helm/latchkey', values: parse(files.get('gateway.yaml') ?? '') }]);
  t.equal(gateway?.error, '');
  const policies = parseObjects(files.get('networkpolicy.yaml') ?? '', 'networkpolicy.yaml');
  t.same(faultsOf([...(gateway?.objects ?? []), ...policies]), []);
  const { podSelector } = policies[0]!['spec'].ingress[0].from[0];
  const deployment = gateway?.objects.find(({ kind }) => kind === 'Deployment');
  t.has(deployment?.['spec'].template.metadata.labels, podSelector.matchLabels, 'it admits the pods of the chart');
  const [readme = ''] = [...readFileSync('helm/latchkey/README.md', 'utf8').matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) => text);
  t.match(render([{ chart: 'helm/latchkey', values: parse(readme) }])[0]?.objects.length, 8, 'the values of the chart README');
}); // prettier-ignore

function endWith(t: Test, child: ChildProcess): void {
  t.teardown(async () => {
    const gone = new Promise((done) => child.once('close', done));
    child.kill();
    await gone;
  });
}
