import { execFileSync } from 'node:child_process';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { send } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

const ISSUER = {
  name: 'i',
  issuer: 'https://i.example.com',
  audience: 'a',
  jwks: { file: './keys.json' },
  subjects: [{ claims: { sub: 'x' }, customer_id: 'C1', role: 'user', scope: ['global:read'] }],
};

/** Puts a named pipe in the place of a file. */
function pipeAt(file: string): void {
  rmSync(file, { force: true });
  execFileSync('mkfifo', [file]);
}

t.test('a server refuses named pipes and devices in place of its files, and goes on', async (t) => {
  const folder = temporaryFolder(t);
  const at = (name: string) => join(folder, name);
  writeFileSync(at('secret'), 'correct horse battery staple');
  const user = { id: 'U1', customer_id: 'C1', login: 'ada@example.com', role: 'superuser' };
  const customers = [{ id: 'C1', name: 'One' }];
  const directory = { customers, users: [{ ...user, password: '${file:./secret}' }] };
  const config = writeConfig(folder, { upstream: 'http://127.0.0.1:1' }, directory);
  const server = await start(t, config);
  for (const [name, fault] of [
    ['secret', /directory\.yaml:\d+:\d+: the file \.\/secret cannot be read: it is not a regular file/],
    ['directory.yaml', /directory\.yaml:1:1: cannot be read: it is not a regular file/],
    ['latchkey.yaml', /latchkey\.yaml:1:1: cannot be read: it is not a regular file/],
  ] as const) {
    pipeAt(at(name));
    const reloaded = await send(server.admin, '/-/reload', { method: 'POST' });
    t.equal(reloaded.status, 422, name);
    t.match(reloaded.json.faults[0], fault);
  }
  t.equal((await send(server.admin, '/readyz')).status, 200, 'it still serves');
});

t.test('check refuses them too, instead of waiting or reading without end', async (t) => {
  const folder = temporaryFolder(t);
  const at = (name: string) => join(folder, name);
  pipeAt(at('pipe'));
  symlinkSync('/dev/zero', at('zero'));
  const upstream = 'https://127.0.0.1:1';
  for (const file of ['./pipe', './zero'])
    for (const [config, fault] of [
      [
        { upstream, listen: { tls: { cert: file, key: file } } },
        /listen\.tls\.cert: the file cannot be read: it is not/,
      ],
      [
        { upstreams: { api: { url: upstream, tls: { ca: file } } } },
        /upstreams\.api\.tls\.ca: the file cannot be read: it is not/,
      ],
      [{ upstream, directory: { file } }, /(pipe|zero):1:1: cannot be read: it is not a regular file/],
    ] as const)
      // prettier-ignore
      t.match(await run(['check', '--config', writeConfig(folder, config)]), { code: 1, stderr: fault }, file);
  writeFileSync(at('large.yaml'), Buffer.alloc(33 * 1024 * 1024, '#'));
  const large = writeConfig(folder, { upstream, directory: { file: './large.yaml' } });
  t.match(await run(['check', '--config', large]), {
    code: 1,
    stderr: /large\.yaml:1:1: cannot be read: it is over 33554432 bytes/,
  });
  pipeAt(at('keys.json'));
  const keys = writeConfig(folder, { upstream, jwt_issuers: [ISSUER] });
  t.match(await run(['check', '--online', '--config', keys]), {
    code: 1,
    stderr: /jwt_issuers\.0\.jwks\.file: the file cannot be read: it is not a regular file/,
  });
});
