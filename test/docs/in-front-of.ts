import { createServer, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { clientFolder, type Ended, runClient } from '../clients/start.js';
import { startFixture } from '../helpers/fixture.js';
import { until } from '../helpers/until.js';
import { blocksOf } from './markdown.js';

/* What docs/in-front-of.md says, as its readers do it. */

export const PAGE = 'docs/in-front-of.md';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** Returns the configurations of a section, with the address of the software replaced. */
export function configurationsOf(section: string, upstream: string): object[] {
  return blocksOf(PAGE, section)
    .filter(({ kind }) => kind === 'yaml')
    .map(({ text }) => parse(text.replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, upstream)) as object);
}

/** A request as the software received it. */
interface Asked {
  readonly user: unknown;
  /** Whether a token is anywhere in its head, also inside Basic. */
  readonly hasToken: boolean;
}

/**
 * Starts Latchkey as a section says, in front of software over HTTP/1.1.
 *
 * @param port of the software
 * @param path for which the software responds when it is ready
 */
export async function followSection(t: Test, section: string, port: number, path = '/') {
  await until(() => fetch(`http://127.0.0.1:${port}${path}`).then(() => true, () => false), `${section} listens`, 60_000); // prettier-ignore
  const { url: recorder, asked } = await record(t, port);
  /** Requests that came without the identity of the token's user, or with the token. */
  const wrong = () => asked.filter(({ user, hasToken }) => user !== 'engineer' || hasToken);
  return { ...(await startAs(t, section, recorder)), asked, wrong };
}

/** Starts Latchkey as a section says, in front of a URL. */
export async function startAs(t: Test, section: string, upstream: string) {
  const [config = {}] = configurationsOf(section, upstream);
  const fixture = await startFixture(t, { upstream: undefined, ...config });
  const { host } = new URL(fixture.url);
  const folder = clientFolder(t);
  mkdirSync(join(folder, 'home/.config/containers'), { recursive: true });
  // Loopback has no TLS here.
  writeFileSync(
    join(folder, 'home/.config/containers/registries.conf'),
    `[[registry]]\nlocation = "${host}"\ninsecure = true\n`,
  );
  writeFileSync(
    join(folder, 'home/.config/containers/policy.json'),
    '{"default":[{"type":"insecureAcceptAnything"}]}',
  );
  const key = await fixture.token('engineer');
  const here = (text: string) =>
    text
      .replaceAll(/https:\/\/((?:[^@/\s]+@)?)\w+\.example\.com/g, `http://$1${host}`)
      .replaceAll(/\b[a-z0-9]+\.example\.com\b/g, host);
  /** Runs shell commands of a client in its folder. */
  const shell = (script: string, env: NodeJS.ProcessEnv = {}): Promise<Ended> =>
    runClient('bash', ['--norc', '-euo', 'pipefail', '-c', `cd ${folder}\n${here(script)}`], {
      env: {
        HOME: join(folder, 'home'),
        LC_ALL: 'C.UTF-8',
        REGISTRY_AUTH_FILE: join(folder, 'auth.json'),
        TOKEN: key,
        ...env,
      },
    });
  const block = (kind: string) => blocksOf(PAGE, section).find((each) => each.kind === kind)?.text ?? '';
  return { ...fixture, folder, key, here, block, shell };
}

/** Starts a proxy that forwards everything as it is, and notes what it forwards. */
async function record(t: Test, port: number): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const note = (headers: NodeJS.Dict<string | string[]>, rest: string) => {
    const basic = /^basic (.*)/i.exec(String(headers['authorization']))?.[1] ?? '';
    const hasToken = /lk[0-9A-Za-z]{38}/.test(`${rest} ${Object.values(headers).join(' ')} ${atob(basic)}`);
    asked.push({ user: headers['x-auth-user-id'], hasToken });
  };
  const server = createServer((req, res) => {
    note(req.headers, req.url ?? '');
    const { method, url: path, rawHeaders } = req;
    const onward = request({ host: '127.0.0.1', port, method, path, headers: rawHeaders }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(res);
    });
    onward.on('error', () => res.destroy());
    req.pipe(onward);
  });
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => void sockets.add(socket));
  server.on('upgrade', ({ url: path = '', headers, rawHeaders }, socket: Socket, head: Buffer) => {
    note(headers, path);
    const onward = connect(port, '127.0.0.1');
    const lines = rawHeaders.map((each, i) => (i % 2 === 0 ? `${each}: ` : `${each}\r\n`)).join('');
    onward.write(`GET ${path} HTTP/1.1\r\n${lines}\r\n`);
    onward.write(head);
    for (const each of [onward, socket]) each.on('error', () => undefined).on('close', () => (onward.destroy(), socket.destroy()));
    onward.pipe(socket).pipe(onward);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((done) => server.close(done));
  });
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}`, asked };
} // prettier-ignore
