import { join } from 'node:path';
import t from 'tap';
import { costOfHash } from '../../src/domain/limits.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { INSTALLED, run } from '../helpers/latchkey.js';

t.test(
  'the next login replaces a weak hash, and a directory that declares it does not undo that',
  async (t) => {
    const { server, url, folder, configFile, login } = await startFixture(t, {}, { program: INSTALLED });
    const store = openLmdbStore(join(folder, 'data'));
    t.teardown(() => store.maintenance.close());
    const cost = async () => costOfHash((await store.directory.getUser('user'))?.passwordHash ?? null);
    t.equal(await cost(), 1_024);
    const first = { Cookie: await login('user') };
    t.equal(await cost(), 47_104);
    const file = join(folder, 'directory.yaml');
    const { code, stdout } = await run(['apply', '--config', configFile, '-f', file, '--dry-run']);
    t.equal(code, 0, stdout);
    t.notMatch(stdout, 'password');
    t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
    t.equal(await cost(), 47_104);
    t.equal(
      (await send(url, '/logout', { method: 'POST', headers: first })).status,
      204,
      'the session is still active',
    );
    t.ok(await login('user'));
  },
);
