import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { stringify } from 'yaml';
import { DIRECTORY, FULL, placesOf } from '../config/mutations.js';
import { send } from '../helpers/http.js';
import { run, start, temporaryFolder } from '../helpers/latchkey.js';
import { matchLog } from '../helpers/until.js';

/*
 * A secret in the wrong setting: `check` and `serve` refuse it without printing it, and neither the
 * log nor the unauthenticated admin port shows it. `test/config/secrets.test.ts` tries every
 * setting in every form.
 */

const CANARY = 'zq7canary4xw9';
const folder = temporaryFolder(t);
const file = join(folder, 'latchkey.yaml');
const env = { CANARY };
// Replaces the store and the directory, so that it starts without external services.
const embedded = FULL.replace(
  /^store:\n(?: .*\n)+/m,
  `store:\n  type: lmdb\n  path: ${join(folder, 'data')}\n`,
)
  .replace(/^directory:\n(?: .*\n)+/m, 'directory:\n  file: directory.yaml\n')
  .replace('level: info', 'level: debug');
writeFileSync(join(folder, 'directory.yaml'), DIRECTORY, { mode: 0o600 });
writeFileSync(join(folder, 'canary'), CANARY);
writeFileSync(file, embedded);
const server = await start(t, file, { env });

const WAYS = [
  `[ ${CANARY} ]`,
  `{ a: ${CANARY} }`,
  `"http://u:${CANARY}@h/?api_key=${CANARY}"`,
  '${CANARY}',
  '"${file:canary}"',
];

t.test('a reload reveals no secret in its response, the log or on the admin port', async (t) => {
  const leaks: string[] = [];
  let refused = 0;
  for (const [i, { path, with: put }] of placesOf(embedded).entries()) {
    const way = WAYS[i % WAYS.length] ?? '';
    writeFileSync(file, put(way));
    const reply = await send(server.admin, '/-/reload', { method: 'POST' });
    if (reply.status === 422) refused += 1;
    const shown = reply.status === 200 ? (await send(server.admin, '/-/config')).text : '';
    if (`${reply.text}${shown}`.includes(CANARY)) leaks.push(`${path} ${way}: ${reply.text}${shown}`);
  }
  writeFileSync(file, embedded);
  for (const { path, with: put } of placesOf(DIRECTORY)) {
    writeFileSync(join(folder, 'directory.yaml'), put('"${file:canary}"'));
    const reply = await send(server.admin, '/-/reload', { method: 'POST' });
    if (reply.text.includes(CANARY)) leaks.push(`${path} of the directory: ${reply.text}`);
  }
  t.same(leaks.slice(0, 10), [], `${leaks.length} leaks`);
  t.ok(refused > 60, `${refused} were refused`);
  await matchLog(t, server, 'reload refused', 'refusals are logged');
  t.notMatch(server.stdout() + server.stderr(), CANARY);
});

t.test('check and serve reveal no secret either', async (t) => {
  const rows: [string, string][] = [
    ['listen', `[ ${CANARY} ]`],
    ['tracing.otlp', `"https://a.example/?api_key=${CANARY}"`],
    ['tracing.otlp', `"https://user:${CANARY}@a.example/"`],
    ['default_route.upstream', '${CANARY}'],
    ['listen.host', '${CANARY}'],
    ['store.type', '"${file:canary}"'],
    ['log.level', `"\\q${CANARY}"`],
  ];
  for (const [path, way] of rows) {
    const place = placesOf(embedded).find((each) => each.path === path);
    const other = join(folder, 'other.yaml');
    writeFileSync(other, place?.with(way) ?? '');
    const checked = await run(['check', '--config', other], { env });
    if (path !== 'listen.host') t.equal(checked.code, 1, `${path} ${way}`);
    t.notMatch(JSON.stringify(checked), CANARY, `${path} ${way}`);
    // Both report the faults of a file alike; only a server listens.
    if (path !== 'listen.host' && path !== 'listen') continue;
    const served = await run(['serve', '--config', other], { env });
    t.equal(served.code, 1, `${path} ${way}`);
    t.notMatch(JSON.stringify(served), CANARY, `${path} ${way}`);
  }
});

t.test('a secret in the directory appears in no message', async (t) => {
  writeFileSync(join(folder, 'sealing.hex'), `${CANARY}\n`);
  const users = [{ id: 'U', customer_id: 'C1', login: 'u', role: 'superuser', name: '${file:sealing.hex}' }];
  const directory = join(folder, 'names.yaml');
  writeFileSync(directory, stringify({ customers: [{ id: 'C1', name: 'a' }], users }), { mode: 0o600 });
  const other = join(folder, 'with-names.yaml');
  writeFileSync(other, `upstream: http://127.0.0.1:1\ndirectory: { file: ${directory} }\nstore: { type: lmdb, path: ${join(folder, 'd2')} }\n`);
  for (const command of ['check', 'serve', 'apply']) {
    const told = await run([command, '--config', other]);
    t.match(told, { code: 1, stderr: /users\.0\.name: "\$\{\.\.\.\}" is expanded in password_hash, .* only; write "\$\$\{/ }, command);
  }
}); // prettier-ignore
