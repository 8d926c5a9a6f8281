import { createHash } from 'node:crypto';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, type JSONWebKeySet, SignJWT } from 'jose';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { client, directory } from '../helpers/fixture.js';
import { send, serveHttp } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { needPackages, runs } from '../helpers/debian.js';
import { until } from '../helpers/until.js';

const EXAMPLE = 'examples/verify-assertion';
const CONFIG = parse(readFileSync(join(EXAMPLE, 'latchkey.yaml'), 'utf8'));
const { issuer, audience } = CONFIG.identity.assertion as { issuer: string; audience: string };

/** Debian's Python, which has Debian's packages whatever else is in the path. */
const PYTHON = '/usr/bin/python3';

/** How to run each example; undefined if its toolchain is missing. */
const PROGRAMS = {
  node: () => [process.execPath, join(EXAMPLE, 'node/upstream.mjs')],
  python: () => {
    needPackages(() => runs(PYTHON, '-c', 'import jwt, cryptography'), 'python3-jwt', 'python3-cryptography');
    return [PYTHON, join(EXAMPLE, 'python/upstream.py')];
  },
  // The toolchain is large, so this example runs only where it is already installed.
  go: (t: Test) => {
    if (!runs('go', 'version')) return undefined;
    const program = join(temporaryFolder(t), 'upstream.bin');
    const built = spawnSync('go', ['build', '-o', program, '.'], {
      cwd: join(EXAMPLE, 'go'),
      env: { ...process.env, CGO_ENABLED: '0', GOTOOLCHAIN: 'local' },
    });
    if (built.status !== 0) throw new Error(built.stderr.toString());
    return [program];
  },
} as const;

/** Starts an example that trusts the keys at an address. */
async function startExample(t: Test, command: readonly string[], jwks: string): Promise<string> {
  const [program = '', ...args] = command;
  const env = {
    ...process.env,
    PORT: '0',
    JWKS_URL: jwks,
    ISSUER: issuer,
    AUDIENCE: audience,
    JWKS_MAX_AGE: '1',
  };
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => void child.kill());
  return urlOf(child);
}

function urlOf(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      const [url] = /http:\S+/.exec(chunk.toString()) ?? [];
      if (url !== undefined) found(url);
    });
    child.once('close', () => failed(new Error('the example ended')));
  });
}

/** Serves published keys of the test, and counts the requests for them. */
async function startIssuer(t: Test) {
  const pairs = {
    good: await generateKeyPair('EdDSA'),
    curve: await generateKeyPair('ES256'),
    other: await generateKeyPair('EdDSA'),
  };
  const keys: JSONWebKeySet['keys'] = [
    { ...(await exportJWK(pairs.good.publicKey)), kid: 'good', alg: 'EdDSA', use: 'sig' },
    { ...(await exportJWK(pairs.curve.publicKey)), kid: 'curve', alg: 'ES256', use: 'sig' },
  ];
  let fetched = 0;
  let status = 200;
  const { url: serverUrl } = await serveHttp(t, (_req, res) => {
    fetched += 1;
    res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify({ keys }));
  });
  return {
    url: serverUrl,
    pairs,
    keys,
    fetched: () => fetched,
    answer: (next: number) => (status = next),
  };
}

const now = () => Math.floor(Date.now() / 1000);
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const claims = (more: object = {}) => ({
  iss: issuer,
  aud: audience,
  sub: 'U1',
  login: 'ada',
  iat: now(),
  exp: now() + 60,
  ...more,
});

for (const [language, prepare] of Object.entries(PROGRAMS)) {
  t.test(`${language}: refuses invalid assertions`, async (t) => {
    const command = prepare(t);
    if (command === undefined) {
      t.comment('there is no Go on this machine, so its example is not run');
      t.pass('not run');
      return;
    }
    const { url, pairs, keys, fetched, answer } = await startIssuer(t);
    const upstream = await startExample(t, command, url);
    const ask = async (assertion?: string | string[], target = '/', more: Record<string, string | string[]> = {}) =>
      (await send(upstream, target, { headers: assertion === undefined ? more : { 'X-Auth-Assertion': assertion, ...more } })).status;
    const sign = (more: object = {}, { kid = 'good', alg = 'EdDSA', key = pairs.good.privateKey } = {}) =>
      new SignJWT(claims(more)).setProtectedHeader({ alg, kid, typ: 'JWT' }).sign(key);
    const good = await sign();
    t.equal(await ask(good), 200);
    t.equal(await ask(await sign({}, { kid: 'curve', alg: 'ES256', key: pairs.curve.privateKey })), 200, 'ES256');
    t.equal(await ask(await sign({ aud: ['another', audience] })), 200, 'a list of audiences');
    const [head = '', body = '', signature = ''] = good.split('.');
    const unsigned = (alg: string) => `${encode({ alg, kid: 'good', typ: 'JWT' })}.${body}.`;
    const secret = Buffer.from(keys[0]?.x ?? '', 'base64url');
    const rows: [string, string | undefined][] = [
      ['none', undefined],
      ['empty', ''],
      ['not an assertion', 'forged'],
      ['another key', await sign({}, { key: pairs.other.privateKey })],
      ['an unpublished key', await sign({}, { kid: 'other', key: pairs.other.privateKey })],
      ['no key id', `${encode({ alg: 'EdDSA' })}.${body}.${signature}`],
      ['alg none', unsigned('none')],
      ['alg None', unsigned('None')],
      ['alg none with a signature', `${unsigned('none')}${signature}`],
      ['no signature', `${head}.${body}.`],
      ['signed with the public key as a secret', await new SignJWT(claims()).setProtectedHeader({ alg: 'HS256', kid: 'good' }).sign(secret)],
      ['the algorithm of another key', await sign({}, { kid: 'good', alg: 'ES256', key: pairs.curve.privateKey })],
      ['changed claims', `${head}.${encode(claims({ sub: 'root' }))}.${signature}`],
      ['expired', await sign({ iat: now() - 120, exp: now() - 60 })],
      ['from the future', await sign({ iat: now() + 600, exp: now() + 660 })],
      ['no expiry', await sign({ exp: undefined })],
      ['another audience', await sign({ aud: 'another' })],
      ['no audience', await sign({ aud: undefined })],
      ['another issuer', await sign({ iss: 'https://evil.example' })],
      ['no issuer', await sign({ iss: undefined })],
      ['nobody', await sign({ sub: undefined })],
    ];
    for (const [name, assertion] of rows) t.equal(await ask(assertion), 401, name);
    const bound = (target: string, method = 'GET') =>
      sign({ htm: method, htu: createHash('sha256').update(target).digest('base64url'), rid: 'r1' });
    const id = { 'X-Request-Id': 'r1' };
    t.equal(await ask([good, good]), 401, 'twice');
    t.equal(await ask(await sign({ dev: true })), 401, 'a development assertion');
    for (const target of ['/a', '/a%20b/%7Ec?q=%2F&&=', '//a//b', '/a?'])
      t.equal(await ask(await bound(target), target, id), 200, `bound to ${target}`);
    t.equal(await ask(await bound('/a'), '/b', id), 401, 'another target');
    t.equal(await ask(await bound('/a'), '/a?', id), 401, 'another query');
    t.equal(await ask(await bound('/a', 'POST'), '/a', id), 401, 'another method');
    t.equal(await ask(await bound('/a'), '/a', { 'X-Request-Id': 'r2' }), 401, 'another request id');
    t.equal(await ask(await bound('/a'), '/a', { 'X-Request-Id': ['r1', 'r1'] }), 401, 'two request ids');
    t.equal(await ask(await bound('/a'), '/a'), 401, 'no request id');
    t.equal(await ask(await sign({ htm: 'GET' }), '/a', id), 401, 'bound by its method only');
    const before = fetched();
    for (let i = 0; i < 30; i++) await ask(await sign({}, { kid: `made-up-${i}` }));
    t.ok(fetched() - before < 15, `invented key ids: ${fetched() - before} fetches for 30`);
    answer(500);
    await until(async () => (await ask(good)) === 503, 'without keys, nothing is accepted');
    answer(200);
    await until(async () => (await ask(good)) === 200, 'accepted again');
  }); // prettier-ignore
}

t.test('behind Latchkey, all examples work through rotations of its keys', async (t) => {
  const commands = Object.values(PROGRAMS).map((prepare) => prepare(t)).filter((command) => command !== undefined);
  // Gives the keys an address before the server that publishes them is started.
  const forward = { to: '' };
  const { url: relayUrl } = await serveHttp(t, (req, res) => {
    send(forward.to, req.url ?? '').then(
      ({ status, text }) => res.writeHead(status, { 'Content-Type': 'application/json' }).end(text),
      () => res.destroy(),
    );
  });
  const jwks = `${relayUrl}/.well-known/jwks.json`;
  const urls = await Promise.all(commands.map((command) => startExample(t, command, jwks)));
  const upstreams = Object.fromEntries(urls.map((url, i) => [`u${i}`, { url }]));
  const config = writeConfig(temporaryFolder(t), {
    upstreams,
    default_route: { upstream: 'u0' },
    routes: urls.map((_, i) => ({ path: `/u${i}`, upstream: `u${i}`, action: 'api' })),
    identity: { assertion: { ...CONFIG.identity.assertion, ttl: '2s', rotate_after: '4s' } },
  }, await directory());
  const { url } = await start(t, config);
  forward.to = url;
  const key = await client(url).token('superuser');
  const kids = new Set<string>();
  const wrong: string[] = [];
  let asked = 0;
  await until(async () => {
    await new Promise((pause) => setTimeout(pause, 150));
    for (const [i] of urls.entries()) {
      const reply = await send(url, `/u${i}`, { headers: { 'Service-Key': key, 'X-Auth-Assertion': 'forged' } });
      asked += 1;
      if (reply.json?.hello !== 'superuser@example.com' || reply.json.caller.role !== 'superuser') wrong.push(`${i}: ${reply.status} ${reply.text}`);
    }
    for (const { kid = '' } of (await send(url, '/.well-known/jwks.json')).json.keys as JSONWebKeySet['keys']) kids.add(kid);
    // The latest key may not sign yet.
    return kids.size >= 4;
  }, 'three signing keys', 60_000);
  t.same(wrong, [], `${asked} requests`);
  t.ok(asked > 20);
  for (const direct of urls) t.equal((await send(direct, '/', { headers: { 'X-Auth-User-Id': 'superuser', 'X-Auth-Role': 'superuser' } })).status, 401, 'a direct request without Latchkey is refused');
}); // prettier-ignore
