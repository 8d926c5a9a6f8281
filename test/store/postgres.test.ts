import { chownSync, copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { openPostgresStore } from '../../src/store/postgres.js';
import type { PostgresSettings } from '../../src/store/postgres/client.js';
import { selfSigned } from '../helpers/certificates.js';
import { postgresSettings, startPooler, startPostgres } from '../helpers/postgres.js';
import { until } from '../helpers/until.js';
import { storeContract } from './contract.js';

const server = await startPostgres(t);

/** Opens the same schema for each case, emptied: creating one takes as long as a case. */
function inOneSchema(settings: PostgresSettings) {
  const { schema } = settings;
  return () => {
    let emptied: Promise<unknown> | undefined;
    return {
      open: async () => {
        emptied ??= server.sql(`DO $$ BEGIN IF to_regclass('${schema}.records') IS NOT NULL THEN
          DELETE FROM ${schema}.members; DELETE FROM ${schema}.records WHERE key NOT IN ('meta', 'feed'); END IF; END $$`);
        await emptied;
        return openPostgresStore(settings);
      },
    };
  };
}

t.test('the store contract', async (t) => {
  await storeContract(t, inOneSchema(postgresSettings({ url: server.url })));
});

t.test('the store contract through a connection pooler in transaction mode', async (t) => {
  const url = await startPooler(t, server);
  await storeContract(t, inOneSchema(postgresSettings({ url })), ['tokens']);
});

t.test('TLS: only a server that proves its name is used', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-postgres-tls-'));
  const [own, other] = [selfSigned(folder, 'postgres'), selfSigned(folder, 'other')];
  const data = String((await server.sql('SHOW data_directory'))[0]?.[0]);
  t.teardown(() => [folder, join(data, 'server.key')].forEach((each) => rmSync(each, { recursive: true })));
  for (const [from, name] of [[own.cert, 'server.crt'], [own.key, 'server.key']] as const) {
    copyFileSync(from, join(data, name));
    chownSync(join(data, name), statSync(data).uid, statSync(data).gid);
  }
  await server.sql('ALTER SYSTEM SET ssl = on');
  await server.sql('SELECT pg_reload_conf()');
  const isOn = async () => (await server.sql('SHOW ssl'))[0]?.[0] === 'on';
  await until(isOn, 'PostgreSQL offers TLS');

  const files = { ca: own.cert, cert: null, key: null, server_name: null };
  const open = async (tls: PostgresSettings['tls'], query = '') => {
    const store = openPostgresStore(postgresSettings({ url: server.url + query, tls }));
    await store.maintenance.initialize();
    const encrypted = await server.sql("SELECT FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'latchkey'");
    await store.maintenance.close();
    return encrypted.length > 0;
  };
  t.equal(await open(files), true, 'store.tls');
  t.equal(await open(files, '?sslmode=verify-full'), true, 'store.tls and sslmode');
  t.equal(await open({ ...files, server_name: 'postgres' }), true, 'another name that the certificate has');
  t.equal(await open(null), false, 'neither');
  for (const [tls, query, reason] of [
    [{ ...files, ca: other.cert }, '', /not from a trusted authority/],
    [{ ...files, server_name: 'db.example' }, '', /for another name/],
    [null, '?sslmode=verify-full', /not from a trusted authority/],
    [null, '?sslmode=require', /not from a trusted authority/],
  ] as const)
    await t.rejects(open(tls, query), reason, `${JSON.stringify(tls)} ${query}`);
}); // prettier-ignore
