import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { startUpstream } from '../helpers/http.js';
import { run, startCommand, temporaryFolder } from '../helpers/latchkey.js';

const shell = promisify(execFile);

t.test('each printed curl line works as pasted, and the next start has the same passwords', async (t) => {
  const data = join(temporaryFolder(t), 'a folder');
  const demo = await startCommand(t, ['demo', '--port', '0', '--data', data]);
  while (!demo.stdout().includes('Stop with Ctrl-C')) await new Promise((wait) => setTimeout(wait, 10));
  const lines = demo.stdout().split('\n').filter((line) => line.startsWith('curl ')); // prettier-ignore
  const answers: string[] = [];
  for (const line of lines) answers.push((await shell('bash', ['-c', line])).stdout);
  const [
    login = '',
    create = '',
    call = '',
    session = '',
    anonymous = '',
    list = '',
    revoke = '',
    after = '',
  ] = answers;
  t.equal(lines.length, 8);
  const [page = ''] = /http:\S+\/_latchkey\/$/m.exec(demo.stdout()) ?? [];
  t.match(await (await fetch(page)).text(), '<title>Latchkey</title>');
  t.equal((JSON.parse(login) as { user: { role: string } }).user.role, 'superuser');
  t.equal(create, '', 'the secret goes to a file');
  const seen = JSON.parse(call) as {
    method: string;
    path: string;
    headers: Record<string, string>;
    body: string;
  };
  t.match(seen, { method: 'GET', path: '/service/SVC1/version/1', body: '' });
  t.match(seen.headers, {
    'x-auth-role': 'superuser',
    'x-auth-credential': 'token',
    'x-auth-scope': 'global',
  });
  t.match((JSON.parse(session) as typeof seen).headers, { 'x-auth-credential': 'session' });
  t.match(anonymous, /^HTTP\/1\.1 401 /);
  t.match(JSON.parse(list), [{ name: 'demo', last_seen_at: /^20/ }]);
  t.match(revoke, /^HTTP\/1\.1 204 /);
  t.match(after, /^HTTP\/1\.1 401 /);

  const file = join(data, 'directory.yaml');
  t.equal(statSync(file).mode & 0o777, 0o600);
  const before = readFileSync(file, 'utf8');
  t.same(await demo.stop('SIGINT'), { code: 0, signal: null });
  const upstream = await startUpstream(t);
  const again = await startCommand(t, ['demo', '--port', '0', '--data', data, '--upstream', upstream.url]);
  while (!again.stdout().includes('Stop with Ctrl-C')) await new Promise((wait) => setTimeout(wait, 10));
  t.equal(readFileSync(file, 'utf8'), before);
  const port = new URL(again.url).port;
  const repeated = (lines[0] ?? '').replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${port}`);
  t.match((await shell('bash', ['-c', repeated])).stdout, /superuser/);

  const taken = await run(['demo', '--port', port, '--data', join(temporaryFolder(t), 'b')]);
  t.equal(taken.code, 1);
  t.equal(taken.stderr, `latchkey: port ${port} is in use already; choose another, or 0 for a free one\n`);
});
