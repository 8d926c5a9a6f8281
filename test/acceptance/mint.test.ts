import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JSONWebKeySet } from 'jose';
import t from 'tap';
import { verifyAssertion } from '../../src/verify/index.js';
import { directory } from '../helpers/fixture.js';
import { run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

const folder = temporaryFolder(t);
const issuer = 'https://auth.example.com';
const config = writeConfig(
  folder,
  { upstream: 'http://127.0.0.1:1', identity: { assertion: { enabled: true, issuer, audience: 'api' } } },
  await directory(),
);
const pem = (name: string, type: 'ed25519' | 'ec' | 'rsa') => {
  const options = { namedCurve: 'P-256', modulusLength: 2048 };
  const { privateKey } = generateKeyPairSync(type as 'ec', options);
  const file = join(folder, name);
  writeFileSync(file, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  return file;
};
const keys = [pem('ed.pem', 'ed25519'), pem('ec.pem', 'ec')];
const mint = (...args: string[]) => run(['mint', ...args]);
const requestOf = (assertion: string) => ({
  method: 'GET',
  url: '/x',
  headers: {},
  rawHeaders: ['X-Auth-Assertion', assertion],
});

t.test('mints an assertion that verifiers refuse by default', async (t) => {
  for (const key of keys) {
    const jwks = JSON.parse((await mint('--jwks', '--key', key)).stdout) as JSONWebKeySet;
    t.notMatch(JSON.stringify(jwks), '"d"', 'the private key stays');
    const { stdout, stderr, code } = await mint('--config', config, '--as', 'Engineer@example.com', '--scope', 'global:read', '--services', 'SVC1,SVC2', '--key', key);
    t.match({ stderr, code }, { stderr: '', code: 0 });
    const options = { jwks, issuer, audience: 'api' };
    await t.rejects(verifyAssertion(requestOf(stdout.trim()), options), { code: 'assertion_dev', status: 401 });
    t.match(await verifyAssertion(requestOf(stdout.trim()), { ...options, allowDev: true }), {
      dev: true, sub: 'engineer', login: 'engineer@example.com', customer_id: 'C1', role: 'engineer', scope: 'global:read', services: ['SVC1', 'SVC2'], credential: 'token', token_id: 'dev',
    });
    const { stdout: text } = await mint('--config', config, '--as', 'user', '--key', key, '--json');
    const { dev, assertion, headers, claims } = JSON.parse(text) as { dev: boolean; assertion: string; headers: Record<string, string>; claims: { exp: number; iat: number } };
    t.match({ dev, headers }, { dev: true, headers: { 'X-Auth-Credential': 'session', 'X-Auth-Assertion': assertion } });
    t.equal(claims.exp - claims.iat, 3_600);
  }
}); // prettier-ignore

t.test('plain headers', async (t) => {
  const { stdout } = await mint('--as', 'ada ö', '--role', 'engineer', '--services', 'S1');
  t.equal(
    stdout,
    'X-Auth-User-Id: ada%20%C3%B6\nX-Auth-Customer-Id: dev\nX-Auth-Login: ada%20%C3%B6\nX-Auth-Role: engineer\nX-Auth-Scope: global\nX-Auth-Services: S1\nX-Auth-Credential: token\nX-Auth-Token-Id: dev\n',
  );
});

t.test('a login and a key are enough without a configuration', async (t) => {
  const key = keys[0] ?? '';
  const jwks = JSON.parse((await mint('--jwks', '--key', key)).stdout) as JSONWebKeySet;
  const { stdout, code } = await mint('--as', 'ada', '--scope', 'global:read', '--services', 'S1', '--key', key);
  t.equal(code, 0);
  const options = { jwks, issuer: 'dev', audience: 'dev', allowDev: true };
  t.match(await verifyAssertion(requestOf(stdout.trim()), options), { dev: true, login: 'ada', role: 'user', services: ['S1'] });
  t.match((await mint('--as', 'ada')).stdout, /^X-Auth-Role: user$/m);
}); // prettier-ignore

t.test('missing or invalid options', async (t) => {
  for (const [args, code, stderr] of [
    [[], 2, /--as LOGIN/],
    [['--jwks'], 2, /--key FILE/],
    [['--as', 'nobody', '--config', config], 1, /no directory file declares the user nobody/],
    [['--as', 'user', '--config', config, '--key', config], 1, /openssl genpkey/],
    [['--as', 'user', '--config', config, '--key', pem('rsa.pem', 'rsa')], 1, /neither an Ed25519 nor a P-256 key/],
  ] as const)
    t.match(await mint(...args), { code, stderr, stdout: '' }, args.join(' '));
}); // prettier-ignore
