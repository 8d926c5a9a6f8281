import t from 'tap';
import { directory } from '../helpers/fixture.js';
import { run, runOn, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

/* Tests run most commands in a process that ran others before: what they say and how they end must not depend on that. */

t.test('a command ends alike in a process of its own and in one that ran others', async (t) => {
  const folder = temporaryFolder(t);
  const config = ['--config', writeConfig(folder, { upstream: 'http://127.0.0.1:1' }, await directory())];
  await run(['apply', ...config]);
  const rows = {
    'what succeeds': ['user', 'list', ...config],
    'what is refused': ['user', 'show', 'nobody', ...config],
    'wrong usage': ['user', 'show', ...config, '--nonsense'],
    'a file that is not there': ['check', '--config', `${folder}/none.yaml`],
    'a configuration that is fine': ['check', ...config],
  };
  for (const [name, args] of Object.entries(rows)) {
    const alone = await runOn(process.execPath, args);
    await run(args);
    t.same(await run(args), alone, name);
  }
});
