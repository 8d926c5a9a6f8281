import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { isAccessToken } from '../../src/domain/secret.js';
import { startFixture } from '../helpers/fixture.js';
import { freePort } from '../helpers/free-port.mjs';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/*
 * What people put Latchkey in front of: a git server, a container registry, a package index for
 * Python, one for npm, and pages.
 */

type Test = { teardown: (fn: () => void | Promise<void>) => void };

interface Asked {
  readonly line: string;
  readonly user: string | undefined;
  /** Whether a token is anywhere in it, also inside Basic. */
  readonly hasToken: boolean;
}

/** Ends a process with its test. */
export function endWith(t: Test, child: ReturnType<typeof spawn>): void {
  const ended = new Promise((done) => child.once('close', done));
  t.teardown(async () => {
    child.kill();
    await ended;
  });
}

/** Starts them behind Latchkey. */
export async function startServed(t: Test) {
  const folder = temporaryFolder(t);
  const registry = await startRegistry(t, folder);
  run('git', 'init', '-q', '--bare', '-b', 'main', join(folder, 'git/repo.git'));
  run('git', '-C', join(folder, 'git/repo.git'), 'config', 'http.receivepack', 'true');
  const wheel = makeWheel(folder);
  const tarball = makeTarball(folder);
  const asked: Asked[] = [];
  const { url } = await serveHttp(t, (req, res) => {
    const { method, url: target = '', rawHeaders, headers } = req;
    const basic = /^basic (.*)/i.exec(headers.authorization ?? '')?.[1] ?? '';
    const texts = `${target} ${rawHeaders.join(' ')} ${atob(basic)}`.matchAll(/(?=(lk[0-9A-Za-z]{38}))/g);
    // The registry's own random texts may have the form, but not the checksum.
    const hasToken = Array.from(texts, ([, text = '']) => text).some(isAccessToken);
    asked.push({ line: `${method} ${target}`, user: headers['x-auth-login'] as string, hasToken });
    if (target.startsWith('/git/')) gitBackend(folder, req, res);
    else if (target.startsWith('/v2/')) pipe(registry, req, res);
    else if (target === '/simple/tiny/')
      res.setHeader('Content-Type', 'text/html').end(`<a href="/files/${WHEEL}">${WHEEL}</a>`);
    else if (target === `/files/${WHEEL}`) res.end(wheel);
    else if (target === '/tiny' && method === 'GET') res.end(packument(headers.host ?? '', tarball));
    else if (target === '/tiny/-/tiny-1.0.0.tgz') res.end(tarball);
    else req.resume().on('end', () => res.end('{}'));
  });
  const upstreams = { api: { url, host: 'preserve' } };
  const fixture = await startFixture(t, { upstream: undefined, upstreams });
  writeFileSync(join(folder, 'package/package.json'), '{"name":"tiny","version":"2.0.0"}');
  return {
    ...fixture,
    asked,
    /** A package that is not yet published. */
    packed: join(folder, 'package'),
    wheel: join(folder, WHEEL),
    host: new URL(fixture.url).host,
  };
}

export function run(program: string, ...args: string[]): void {
  const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`);
}

/** Runs git's own CGI program (git-http-backend(1)). */
export function gitBackend(folder: string, req: IncomingMessage, res: ServerResponse): void {
  const [path = '', query = ''] = (req.url ?? '').split('?');
  const cgi = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: path,
      QUERY_STRING: query,
      REQUEST_METHOD: req.method,
      CONTENT_TYPE: req.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: req.headers['content-encoding'] ?? '',
      REMOTE_USER: req.headers['x-auth-login'] as string,
    },
  });
  req.pipe(cgi.stdin.on('error', () => undefined));
  const chunks: Buffer[] = [];
  cgi.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  cgi.on('close', () => {
    const whole = Buffer.concat(chunks);
    const end = whole.indexOf('\r\n\r\n');
    let status = 200;
    for (const line of whole.toString('latin1', 0, end).split('\r\n')) {
      const [name = '', value = ''] = line.split(/: (.*)/s);
      if (name === 'Status') status = Number.parseInt(value, 10);
      else res.setHeader(name, value);
    }
    res.writeHead(status).end(whole.subarray(end + 4));
  });
}

/** Starts Debian's `docker-registry`. */
export async function startRegistry(t: Test, folder: string): Promise<number> {
  const port = await freePort();
  const config = join(folder, 'registry.yaml');
  const storage = { filesystem: { rootdirectory: join(folder, 'registry') }, maintenance: { uploadpurging: { enabled: false } } };
  writeFileSync(config, JSON.stringify({ version: '0.1', storage, http: { addr: `127.0.0.1:${port}` } }));
  endWith(t, spawn('docker-registry', ['serve', config], { stdio: 'ignore' }));
  await until(() => fetch(`http://127.0.0.1:${port}/v2/`).then(({ ok }) => ok, () => false), 'the registry listens');
  return port;
} // prettier-ignore

export function pipe(port: number, req: IncomingMessage, res: ServerResponse): void {
  const { method, url: path, headers } = req;
  const onward = request({ port, method, path, headers }, (answer) => {
    res.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(res);
  });
  req.pipe(onward);
}

/** Makes the smallest image, as an OCI layout. */
export function makeImage(folder: string): string {
  const layout = join(folder, 'image');
  mkdirSync(join(layout, 'blobs/sha256'), { recursive: true });
  const blob = (mediaType: string, bytes: Buffer) => {
    const digest = createHash('sha256').update(bytes).digest('hex');
    writeFileSync(join(layout, 'blobs/sha256', digest), bytes);
    return { mediaType, digest: `sha256:${digest}`, size: bytes.length };
  };
  const json = (value: object) => Buffer.from(JSON.stringify(value));
  const type = 'application/vnd.oci.image';
  const layer = blob(`${type}.layer.v1.tar`, Buffer.alloc(1024));
  const config = blob(`${type}.config.v1+json`, json({ architecture: 'amd64', os: 'linux', rootfs: { type: 'layers', diff_ids: [layer.digest] } }));
  const manifest = blob(`${type}.manifest.v1+json`, json({ schemaVersion: 2, mediaType: `${type}.manifest.v1+json`, config, layers: [layer] }));
  writeFileSync(join(layout, 'oci-layout'), json({ imageLayoutVersion: '1.0.0' }));
  writeFileSync(join(layout, 'index.json'), json({ schemaVersion: 2, manifests: [{ ...manifest, annotations: { 'org.opencontainers.image.ref.name': 'latest' } }] }));
  return `oci:${layout}:latest`;
} // prettier-ignore

export const WHEEL = 'tiny-1.0.0-py3-none-any.whl';

export function makeWheel(folder: string): Buffer {
  const code = `import zipfile
with zipfile.ZipFile('${join(folder, WHEEL)}', 'w') as z:
    z.writestr('tiny.py', '')
    z.writestr('tiny-1.0.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0.0\\n')
    z.writestr('tiny-1.0.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    z.writestr('tiny-1.0.0.dist-info/RECORD', '')`;
  run('python3', '-c', code);
  return readFileSync(join(folder, WHEEL));
}

function makeTarball(folder: string): Buffer {
  mkdirSync(join(folder, 'package'));
  writeFileSync(join(folder, 'package/package.json'), '{"name":"tiny","version":"1.0.0"}');
  run('tar', '-czf', join(folder, 'tiny.tgz'), '-C', folder, 'package');
  return readFileSync(join(folder, 'tiny.tgz'));
}

function packument(host: string, tarball: Buffer): string {
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  const dist = { tarball: `http://${host}/tiny/-/tiny-1.0.0.tgz`, integrity };
  return JSON.stringify({
    name: 'tiny',
    'dist-tags': { latest: '1.0.0' },
    versions: { '1.0.0': { name: 'tiny', version: '1.0.0', dist } },
  });
}
