import t from 'tap';
import { directory } from '../helpers/fixture.js';
import { run, runOn, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

/*
 * Most tests run commands in a process that has run others before; output and exit code must not
 * depend on that.
 */

t.test('a command gives the same result in its own process and in one that has run others', async (t) => {
  const folder = temporaryFolder(t);
  const config = ['--config', writeConfig(folder, { upstream: 'http://127.0.0.1:1' }, await directory())];
  await run(['apply', ...config]);
  const rows = {
    'a success': ['user', 'list', ...config],
    'a refusal': ['user', 'show', 'nobody', ...config],
    'wrong usage': ['user', 'show', ...config, '--nonsense'],
    'a missing file': ['check', '--config', `${folder}/none.yaml`],
    'a valid configuration': ['check', ...config],
  };
  for (const [name, args] of Object.entries(rows)) {
    const alone = await runOn(process.execPath, args);
    await run(args);
    t.same(await run(args), alone, name);
  }
});
