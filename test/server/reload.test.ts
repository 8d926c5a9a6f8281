import { appendFileSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import type { Directory } from '../../src/accounts/declared-records.js';
import { loadConfig } from '../../src/config/load.js';
import type { Log } from '../../src/observe/log.js';
import { WorkerUnreachable } from '../../src/server/processes/messages.js';
import type { Serving } from '../../src/server/processes/serving.js';
import { createReloader } from '../../src/server/reload/reload.js';
import type { OpenedStore } from '../../src/server/stores/open-store.js';
import { temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/** A reloader whose workers prepare a configuration as told, and what it did, in order. */
function begin(
  t: Test,
  prepare: () => unknown,
  file = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' }),
) {
  const did: string[] = [];
  /** The roles of the users in every directory that was applied. */
  const roles: string[] = [];
  const note = (fields: object, msg: string) => void did.push(`${msg} ${JSON.stringify(fields)}`);
  const log = { info: note, warn: note, error: note, bindings: () => ({}), setBindings: () => undefined };
  const opened = {
    audit: {
      ensureWritable: () => undefined,
      note: ({ event }: { event: string }) => void did.push(event),
    },
    store: { webhooks: { subscribe: () => undefined } },
    directory: {
      apply: async ({ users }: Directory) => {
        roles.push(...users.map(({ role }) => role));
        return { differences: [], pendingDeletions: [], revokedTokens: [] };
      },
    },
  };
  const serving: Partial<Serving> = {
    prepare: async () => {
      did.push('prepare');
      await prepare();
      return { commit: async () => undefined, abort: async () => undefined };
    },
  };
  const loaded = loadConfig(file);
  const reloader = createReloader(loaded, opened as unknown as OpenedStore, serving as Serving, {}, log as unknown as Log); // prettier-ignore
  const count = (what: string) => did.filter((each) => each.startsWith(what)).length;
  return { reloader, did, roles, count, file };
}

t.test('reloads that wait for another one share one', async (t) => {
  const releases: (() => void)[] = [];
  const { reloader, count } = begin(
    t,
    async () => new Promise((release) => releases.push(() => release(undefined))),
  );
  const first = reloader.reload('first');
  await until(() => releases.length === 1, 'the first one runs');
  const others = Array.from({ length: 100 }, async () => reloader.reload('another'));
  releases[0]?.();
  t.same((await first).faults, []);
  await until(() => releases.length === 2, 'the second one runs');
  releases[1]?.();
  for (const each of await Promise.all(others)) t.same(each.faults, []);
  t.equal(count('prepare'), 2, 'a file that changed during the first one is read by the second');
});

t.test('a worker that does not respond, or dies, postpones a reload', async (t) => {
  let responds = false;
  const { reloader, did, count } = begin(t, async () => {
    if (!responds) throw new WorkerUnreachable('worker 7: no response');
  });
  t.match(await reloader.reload('SIGHUP'), { outcome: 'postponed', faults: ['worker 7: no response'] });
  t.equal(count('reload postponed; running configuration kept'), 1, did.join('\n'));
  responds = true;
  await until(() => count('reloaded') === 1, 'it is tried again');
});

t.test('an unexpected error refuses a reload, and is not quoted', async (t) => {
  const { reloader, did } = begin(t, async () => Promise.reject(new TypeError('a secret')));
  t.match(await reloader.reload('SIGHUP'), { outcome: 'refused', faults: ['unexpected error: TypeError'] });
  t.same(did.slice(0, 2), ['prepare', 'config.refused']);
});

t.test('watches the files of a refused configuration, also those that do not exist yet', async (t) => {
  const { reloader, file } = begin(t, async () => undefined);
  const valid = readFileSync(file, 'utf8');
  const before = reloader.watched();
  for (const [setting, ...names] of [
    ['directory: { file: ./late.yaml }', 'late.yaml'],
    ['policy_shadow: ./late.yaml', 'late.yaml'],
    ['listen: { tls: { cert: ./c.pem, key: ./k.pem } }', 'c.pem', 'k.pem'],
    ['upstreams: { api: { url: "https://127.0.0.1:1", tls: { ca: ./ca.pem } } }', 'ca.pem'],
  ] as const) {
    const text = setting.startsWith('upstreams') ? '' : `${valid.replace(/^listen:.*(\n +.*)*\n/m, '')}\n`;
    writeFileSync(file, `${text}${setting}\naudit: { to: ./audit.jsonl }\n`);
    t.match(await reloader.reload('SIGHUP'), { outcome: 'refused' }, setting);
    const also = names.map((name) => join(dirname(file), name));
    t.same(reloader.watched(), [...before, ...also], `${setting}, but not the audit log`);
  }
  writeFileSync(file, valid);
  t.match(await reloader.reload('SIGHUP'), { outcome: 'applied', faults: [] });
  t.same(reloader.watched(), before);
});

t.test('watches a file with a fault that only the refused configuration names', async (t) => {
  const { reloader, file } = begin(t, async () => undefined);
  const shadow = join(dirname(file), 'next.yaml');
  writeFileSync(shadow, 'routs: []');
  const before = reloader.watched();
  appendFileSync(file, '\npolicy_shadow: ./next.yaml\n');
  t.match(await reloader.reload('SIGHUP'), {
    outcome: 'refused',
    faults: [/next\.yaml:1:1: unknown key "routs"/],
  });
  t.same(reloader.watched(), [...before, shadow]);
  writeFileSync(shadow, 'routes: []');
  t.match(await reloader.reload('a changed file'), { outcome: 'applied', faults: [] });
  t.same(reloader.watched(), [...before, shadow], 'now as a file of the configuration');
});

t.test('a directory file is not applied with the configuration of another version', async (t) => {
  const folder = temporaryFolder(t);
  for (const [version, role] of Object.entries({ good: 'engineer', broken: 'superuser' })) {
    mkdirSync(join(folder, version));
    const upstream = version === 'good' ? 'http://127.0.0.1:1' : 'nonsense';
    const users = [{ id: 'U1', customer_id: 'C1', login: 'a@example.com', name: 'A', role }];
    writeConfig(join(folder, version), { upstream }, { customers: [{ id: 'C1', name: 'C' }], users });
  }
  const use = (version: string) => {
    symlinkSync(version, join(folder, 'next'));
    renameSync(join(folder, 'next'), join(folder, 'now'));
  };
  use('good');
  const { reloader, roles } = begin(t, () => use('broken'), join(folder, 'now/latchkey.yaml'));
  t.match(await reloader.reload('SIGHUP'), { outcome: 'applied', faults: [] });
  t.match(await reloader.reload('SIGHUP'), { outcome: 'refused' });
  t.same(roles, ['engineer'], 'the whole version that was read');
});
