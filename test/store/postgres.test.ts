import t from 'tap';
import { openPostgresStore } from '../../src/store/postgres.js';
import { postgresSettings, startPooler, startPostgres } from '../helpers/postgres.js';
import { storeContract } from './contract.js';

const server = await startPostgres(t);

t.test('the store contract', async (t) => {
  await storeContract(t, () => {
    const settings = postgresSettings({ url: server.url });
    return { open: () => openPostgresStore(settings) };
  });
});

t.test('the store contract through a connection pooler in transaction mode', async (t) => {
  const url = await startPooler(t, server);
  await storeContract(t, () => {
    const settings = postgresSettings({ url });
    return { open: () => openPostgresStore(settings) };
  });
});
