import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { client, directory } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';
import { type AttackCase, derivedValues, runCase } from './attack-case.js';
import { startRecorder } from './recorder.js';

const cases = JSON.parse(
  readFileSync(join(import.meta.dirname, 'attack-cases.json'), 'utf8'),
) as AttackCase[];
const exceptions = parse(
  readFileSync(join(import.meta.dirname, '../acceptance/attack-exceptions.yaml'), 'utf8'),
) as Record<string, string>;

/** Number of servers that share the cases. Cases mostly wait, so several can run at once. */
const LANES = 4;
for (const workers of EVERY_CASE ? [1, 2] : [1]) {
  t.test(`each case as exact bytes, ${workers} worker(s)`, async (t) => {
    const queue = cases.filter(({ id }) => !(id in exceptions));
    t.ok(queue.length > 200, 'the file contains the cases');
    const lanes: Awaited<ReturnType<typeof startLane>>[] = [];
    for (let i = 0; i < LANES; i++) lanes.push(await startLane(t, workers));
    await Promise.all(
      lanes.map(async ({ server, upstream, values }) => {
        for (let each = queue.shift(); each !== undefined; each = queue.shift()) {
          t.same(await runCase(each, server.url, upstream, values), [], `${each.id}: ${each.expect}`);
        }
      }),
    );
    for (const { server } of lanes) {
      t.notMatch(server.stdout(), /"level":[56]0/, 'no fault is logged');
      t.equal(server.stderr(), '');
    }
  });
}

t.test('each exception names a case and has a reason', async (t) => {
  for (const [id, reason] of Object.entries(exceptions)) {
    t.ok(cases.some((each) => each.id === id) && reason.length > 20, id);
  }
  t.ok(Object.keys(exceptions).length <= 5);
});

async function startLane(t: { teardown: (fn: () => void) => void }, workers: number) {
  const upstream = await startRecorder(t);
  const folder = temporaryFolder(t);
  const file = writeConfig(
    folder,
    { upstream: upstream.url, workers, login: { max_failures: 100 }, limits: { head_timeout: '1s' } },
    await directory(),
  );
  const server = await start(t, file);
  const { login, token } = client(server.url);
  const expiresAt = Date.now() + 4_000;
  const expired = await token('superuser', { expires_at: new Date(expiresAt).toISOString() });
  const revoked = await token('superuser');
  await send(server.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': revoked } });
  const values = {
    ...derivedValues(await token('superuser'), 'X-Auth-User-Id'),
    PURGE_TOKEN: await token('superuser', { scope: 'purge_select', service_id: 'SVC1' }),
    SESSION: (await login('superuser')).replace('service.session=', ''),
    EXPIRED_TOKEN: expired,
    REVOKED_TOKEN: revoked,
  };
  await until(() => Date.now() > expiresAt, 'the token expires');
  return { server, upstream, values };
}
