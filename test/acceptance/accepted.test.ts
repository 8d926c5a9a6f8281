import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { accepts } from '../config/accepts.js';
import { serveTcp } from '../helpers/http.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';

/*
 * A configuration that `check` accepts also starts under `serve`: both use the same parsing and the
 * same checks after it.
 */

const folder = temporaryFolder(t);
const file = join(folder, 'latchkey.yaml');
mkdirSync(join(folder, 'folder'));
writeFileSync(join(folder, 'file'), 'no certificate');
const UP = 'upstream: http://127.0.0.1:1\n';

const isAccepted = (text: string): boolean => accepts(file, text);

t.test('rejects configurations that serve could not use', async (t) => {
  const redis = (more: string) => `${UP}store: { type: redis, ${more} }`;
  forEachRow(
    [
      ...['redis://:a/b@h', 'redis://:a%zz@h', 'redis://', 'redis:///0', 'redis://h:0', 'redis://h:65536', 'redis://h:6379/abc', 'redis://h/1/2', 'redis://h?db=x', 'redis://h#x', 'redis://[::::]', 'http://h'].map((url) => redis(`url: "${url}"`)),
      ...['h:65536', 'h:0', '[::::]:1', 'h:', 'a b', 'h:1:2'].flatMap((node) => [redis(`cluster: ["${node}"]`), redis(`sentinel: { master: m, nodes: ["${node}"] }`)]),
      redis('url: "redis://h", tls: { ca: ./none.pem }'),
      redis('url: "redis://h", tls: { ca: ./file }'),
      redis('url: "redis://h", tls: { cert: ./file }'),
      redis('url: "redis://h", command_timeout: 25d'),
      `${UP}store: { type: lmdb, path: ./file }`,
      `${UP}directory: { file: ./folder }`,
      `${UP}audit: { to: ./none/audit.log, required: true }`,
      `${UP}audit: { to: ./folder, required: true }`,
      `${UP}listen: { trusted_proxies: ["fe80::1%eth0"] }`,
      `${UP}listen: { host: "[::1]" }`,
      `${UP}listen: { host: "a b" }`,
      `${UP}listen: { port: 9901 }`,
      `${UP}listen: { host: 127.0.0.1, port: 9000 }\ndecision: { host: "::", port: 9000 }`,
      `${UP}limits: { head_timeout: 999999999d }`,
      `${UP}tokens: { last_seen_interval: 30d }`,
      'upstream: "http://h:65536"',
      'upstreams: { api: { url: http://h, host: "h:65536" } }',
      'upstreams: { api: { url: http://h, response_timeout: 25d } }',
    ],
    (text) => t.notOk(isAccepted(text), text),
  );
  forEachRow(
    [
      ...['redis://h', 'rediss://h:1/', 'redis://u:p%2F%40@h:6379/15', 'redis://:%3A@[::1]:65535/0'].map((url) => redis(`url: "${url}"`)),
      redis('cluster: ["h", "[::1]:7000", "10.0.0.1:65535"]'),
      `${UP}sessions: { absolute_timeout: 400d, idle_timeout: 30d }\ntokens: { max_lifetime: 3650d }`,
      `${UP}listen: { host: "::1", port: 9901 }`,
      `${UP}audit: { to: ./new.log, required: true }`,
    ],
    (text) => t.ok(isAccepted(text), text),
  );
}); // prettier-ignore

t.test('reports a port in use without printing values of the configuration', async (t) => {
  const taken = await serveTcp(t, () => undefined);
  const port = Number(new URL(taken.url).port);
  const used = `{ host: 127.0.0.1, port: ${port} }`;
  const free = '{ host: 127.0.0.1, port: 0 }';
  const rows = [
    ['--port (demo) or listen.port', `listen: ${used}\nadmin: ${free}`],
    ['admin.port', `listen: ${free}\nadmin: ${used}`],
    ['decision.port', `listen: ${free}\nadmin: ${free}\ndecision: ${used}`],
    ['decision.grpc.port', `listen: ${free}\nadmin: ${free}\ndecision: { port: 0, grpc: ${used} }`],
    ['--port (demo) or listen.port', `listen: ${used}\nadmin: ${free}\nworkers: 2`],
    ['decision.grpc.port', `listen: ${free}\nadmin: ${free}\ndecision: { port: 0, grpc: ${used} }\nworkers: 2`],
  ] as const;
  const known = async () => JSON.parse((await run(['fleet', '--config', file, '--json'])).stdout).sidecars as unknown[];
  for (const [setting, addresses] of rows) {
    writeFileSync(file, `${UP}${addresses}\nstore: { type: lmdb, path: ${join(folder, 'd')} }`);
    const stderr = `latchkey: port ${port} is already in use; choose another one with ${setting} (configuration); 0 picks a free one\n`;
    const ended = await run(['serve', '--config', file]);
    t.same([ended.code, ended.stderr], [1, stderr], addresses);
    // A second worker may be killed before it leaves.
    if (!addresses.includes('workers')) t.same(await known(), [], 'nobody waits for a server that did not start');
  }
}); // prettier-ignore

t.test('reports a host that is not of this machine by its setting, also in the log', async (t) => {
  const store = `store: { type: lmdb, path: ${join(folder, 'other-host')} }`;
  for (const workers of [1, 2]) {
    writeFileSync(file, `${UP}listen: { host: 192.0.2.77, port: 0 }\nworkers: ${workers}\n${store}`);
    const { code, stdout, stderr } = await run(['serve', '--config', file]);
    const reason = 'cannot listen on an address that does not belong to this machine (EADDRNOTAVAIL); check listen.host';
    t.same([code, stderr], [1, `latchkey: ${reason}\n`]);
    t.notMatch(stdout, '192.0.2.77');
    if (workers > 1) t.match(stdout, `"message":"${reason}"`);
  }
}); // prettier-ignore
