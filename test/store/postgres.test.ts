import t from 'tap';
import { openPostgresStore } from '../../src/store/postgres.js';
import type { PostgresSettings } from '../../src/store/postgres/client.js';
import { postgresSettings, startPooler, startPostgres } from '../helpers/postgres.js';
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
