import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { credentials, type Metadata, Metadata as MetadataOf, ServerCredentials } from '@grpc/grpc-js';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { needPackages, runs } from '../helpers/debian.js';
import { startFixture } from '../helpers/fixture.js';
import { type EchoHandlers, openGrpc, startGrpc } from '../helpers/grpc-echo.js';
import { temporaryFolder } from '../helpers/latchkey.js';

const PYTHON = '/usr/bin/python3';
const GO_PATH = '/usr/share/gocode';
const HELPERS = join(import.meta.dirname, '../helpers');

needPackages(() => runs(PYTHON, '-c', 'import grpc'), 'python3-grpcio');
const hasGo = () => runs('go', 'version') && existsSync(`${GO_PATH}/src/google.golang.org/grpc`);
needPackages(hasGo, 'golang-go', 'golang-google-grpc-dev');

const folder = temporaryFolder(t);
const tls = selfSigned(folder, 'one');
const go = join(folder, 'metadata');
const env = { ...process.env, GO111MODULE: 'off', GOPATH: GO_PATH };
execFileSync('go', ['build', '-o', go, join(HELPERS, 'metadata.go')], { env });

/** The programs of the other implementations, each a client and a server. */
const PROGRAMS: Record<string, [string, ...string[]]> = {
  'grpc-go': [go],
  'C-core': [PYTHON, join(HELPERS, 'metadata.py')],
};

/** Starts a server, and returns its port. */
async function startServer([file, ...args]: [string, ...string[]]): Promise<number> {
  const child = spawn(file, [...args, 'server'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const gone = once(child, 'close');
  t.teardown(async () => {
    child.kill();
    await gone;
  });
  const [port] = (await once(child.stdout, 'data')) as [Buffer];
  return Number(port.toString());
}

function ours(metadata: Metadata): Metadata {
  const echoed = new MetadataOf();
  for (const name of ['x-text', 'x-raw-bin']) for (const value of metadata.get(name)) echoed.add(name, value);
  return echoed;
}

function printable(metadata: Metadata | undefined): string[][] {
  return ['x-text', 'x-raw-bin'].flatMap((name) =>
    (metadata?.get(name) ?? []).map((value) => [
      name,
      typeof value === 'string' ? value : value.toString('hex'),
    ]),
  );
}

const handlers: EchoHandlers = {
  Say: (call, callback) => {
    call.sendMetadata(ours(call.metadata));
    callback(null, {}, ours(call.metadata));
  },
  Count: (call) => call.end(),
  Collect: (_, callback) => callback(null, {}),
  Chat: (call) => call.end(),
};

const ports: Record<string, number> = {
  'grpc-js': (await startGrpc(t, handlers, ServerCredentials.createInsecure())).port,
};
for (const [name, program] of Object.entries(PROGRAMS)) ports[name] = await startServer(program);
const names = Object.keys(ports);
const config = {
  upstream: undefined,
  upstreams: Object.fromEntries(
    names.map((name) => [name.toLowerCase(), { url: `http://127.0.0.1:${ports[name]}`, protocol: 'h2c' }]),
  ),
  routes: names.map((name) => ({
    path: `/${name}/*`,
    auth: 'none',
    upstream: name.toLowerCase(),
    strip_prefix: `/${name}`,
  })),
  default_route: { auth: 'deny', upstream: 'grpc-js' },
};
const listen = { host: '127.0.0.1', port: 0 };
const overTls = await startFixture(t, { ...config, listen: { ...listen, tls } });
const plain = await startFixture(t, { ...config, listen });

/** Returns the metadata and the trailers that a client receives from a server that echoes its own. */
async function callAs(client: string, server: string, isPlain = false): Promise<string[][][]> {
  const url = (isPlain ? plain : overTls).url.replace('127.0.0.1', 'localhost');
  const program = PROGRAMS[client];
  if (program !== undefined) {
    const [file, ...args] = program;
    const path = `/${server}/test.v1.Echo/Say`;
    const { stdout } = await promisify(execFile)(file, [...args, 'client', new URL(url).host, isPlain ? '' : tls.cert, path]);
    return JSON.parse(stdout) as string[][][];
  }
  const security = isPlain ? credentials.createInsecure() : credentials.createSsl(readFileSync(tls.cert));
  const echo = openGrpc(t, url, security, `/${server}`);
  const metadata = new MetadataOf();
  for (const value of ['a', 'b, c']) metadata.add('x-text', value);
  for (const value of ['01020304', 'ff00']) metadata.add('x-raw-bin', Buffer.from(value, 'hex'));
  const call = echo.Say({}, metadata, {}, () => undefined);
  const [[head], [status]] = await Promise.all([once(call, 'metadata'), once(call, 'status')]);
  return [printable(head as Metadata), printable((status as { metadata: Metadata }).metadata)];
} // prettier-ignore

t.test('every value of metadata arrives, in order, in requests, responses and trailers', async (t) => {
  const binary = [
    ['x-raw-bin', '01020304'],
    ['x-raw-bin', 'ff00'],
  ];
  for (const client of names)
    for (const server of names) {
      // Node itself joins the lines that grpc-js receives.
      const texts = client === 'grpc-js' || server === 'grpc-js' ? ['a, b, c'] : ['a', 'b, c'];
      const wanted = [...binary, ...texts.map((text) => ['x-text', text])];
      // grpc-go keeps the order of the values of a name, not that of names.
      const received = (await callAs(client, server)).map((pairs) =>
        pairs.toSorted(([a = ''], [b = '']) => a.localeCompare(b)),
      );
      t.strictSame(received, [wanted, wanted], `${client} to ${server}`);
    }
});

t.test('without TLS, clients begin with HTTP/2 on the plain port', async (t) => {
  for (const client of names) {
    const [head = []] = await callAs(client, 'C-core', true);
    t.ok(
      head.some(([, value]) => value === '01020304'),
      client,
    );
  }
});
