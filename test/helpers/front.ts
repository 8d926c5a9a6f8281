import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROUTES } from '../../src/config/schema/policy.js';
import { needPackages, runs } from './debian.js';
import { type Running, start, temporaryFolder } from './latchkey.js';
import { accepts } from './raw-client.mjs';
import { freePort } from './free-port.mjs';
import { until } from './until.js';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** A running example of a proxy that consults Latchkey. Only its ports are changed. */
export interface Front {
  /** The URL for clients. */
  readonly url: string;
  readonly latchkey: Running;
}

/** How to start each proxy with a copy of its example in a folder. */
const PROGRAMS: Readonly<Record<'nginx' | 'caddy', (folder: string) => ChildProcess>> = {
  nginx: (folder) => {
    needPackages(() => runs('nginx', '-v'), 'nginx-light');
    const file = join(folder, 'nginx.conf');
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`);
    writeFileSync(file, readFileSync(file, 'utf8').replace('http {', `http { access_log off; ${places.join(' ')}`));
    const user = process.getuid?.() === 0 ? 'user root;' : '';
    return spawn('nginx', ['-p', folder, '-c', file, '-e', 'stderr', '-g', `daemon off; ${user} pid ${folder}/pid;`], { stdio: 'ignore' });
  },
  caddy: (folder) => {
    needPackages(() => runs('caddy', 'version'), 'caddy');
    const file = join(folder, 'Caddyfile');
    writeFileSync(file, `{\n\tadmin off\n}\n${readFileSync(file, 'utf8')}`);
    const env = { ...process.env, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
    return spawn('caddy', ['run', '--config', file], { env, stdio: 'ignore' });
  },
}; // prettier-ignore

/** The Latchkey of an example, on free ports. */
export interface Example {
  /** The copy of the example. */
  readonly folder: string;
  /** The port for the proxy to listen on. */
  readonly port: number;
  readonly latchkey: Running;
}

/**
 * Copies an example with free ports and starts its Latchkey.
 * @param upstream the API
 */
export async function startExample(t: Test, name: string, upstream: string): Promise<Example> {
  const root = temporaryFolder(t);
  const folder = join(root, name);
  // The copy is searched for secrets, and the example's page shows the login password.
  cpSync(join('examples', name), folder, { recursive: true, filter: (file) => !file.endsWith('.md') });
  cpSync('examples/directory.yaml', join(root, 'directory.yaml'));
  const port = await freePort();
  const ports: Record<string, string> = {
    '3000': new URL(upstream).port, '8080': String(port), '8081': String(await freePort()), '9902': String(await freePort()),
  }; // prettier-ignore
  for (const file of readdirSync(folder)) {
    const text = readFileSync(join(folder, file), 'utf8');
    writeFileSync(
      join(folder, file),
      text.replace(/\b(?:3000|8080|8081|9902)\b/g, (found) => ports[found] ?? found),
    );
  }
  const config = join(folder, 'latchkey.yaml');
  const routes = JSON.stringify([...ROUTES, { path: '/status', auth: 'none' }]);
  writeFileSync(config, `${readFileSync(config, 'utf8')}admin: { port: 0 }\nroutes: ${routes}\n`);
  return { folder, port, latchkey: await start(t, config) };
}

/**
 * Starts an example with its proxy.
 * @param edit replaces text in its files, or in one: the name, the old text and the new text
 */
export async function startFront(
  t: Test,
  proxy: 'nginx' | 'caddy',
  upstream: string,
  edit?: readonly [file: string, from: RegExp, to: string] | ((example: Example) => Promise<void>),
): Promise<Front> {
  const example = await startExample(t, proxy, upstream);
  const { folder, port, latchkey } = example;
  if (typeof edit === 'function') await edit(example);
  else if (edit !== undefined) {
    const [name, from, to] = edit;
    const file = join(folder, name);
    const text = readFileSync(file, 'utf8');
    if (!from.test(text)) throw new Error(`${file} has no ${from}`);
    writeFileSync(file, text.replace(from, to));
  }
  const child = PROGRAMS[proxy](folder);
  const gone = new Promise((done) => child.once('close', done));
  t.teardown(async () => {
    child.kill('SIGTERM');
    await gone;
  });
  await until(() => accepts(port), `${proxy} accepts connections`, 30_000);
  return { url: `http://127.0.0.1:${port}`, latchkey };
}
