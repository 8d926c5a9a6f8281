import { spawn } from 'node:child_process';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { NODE_ROUTERS, serve } from './node-routers.mjs';

/** @typedef {{ tag: string, sid: string | null }} Served the handler that served a target, and its service */
/** @typedef {{ name: string, ask: (target: string) => Promise<Served | null> }} Router asked for null: no handler */

/** Latchkey's routes; the path of each is also its handler's name. */
export const ROUTES = [
  { path: '/open/*', auth: /** @type {const} */ ('none') },
  { path: '/admin', action: 'admin' },
  { path: '/admin/*', action: 'admin' },
  { path: '/svc/:sid/purge_all', action: 'purge', service: 'sid' },
  { path: '/svc/:sid', action: 'svc', service: 'sid' },
  { path: '/svc/:sid/*', action: 'svc', service: 'sid' },
  { path: '/users/me', action: 'own' },
  { path: '/users/:id', action: 'user' },
  { path: '/caf%C3%A9', action: 'coffee' },
];

/** The handlers of an upstream with these routes; each router takes the first that matches. */
const HANDLERS = [...ROUTES, { path: '/*', auth: undefined, action: 'other' }].map(({ path, action }) => ({
  path,
  prefix: path.endsWith('*') ? path.slice(0, -1) : null,
  tag: action ?? 'open',
}));

/**
 * Starts every router.
 *
 * @returns {Promise<{ routers: Router[], stop: () => void }>}
 */
export async function startRouters() {
  const agent = new Agent({ keepAlive: true });
  /** @type {(() => void)[]} */
  const stops = [() => agent.destroy()];
  const routers = [];
  for (const [name, listenerOf] of Object.entries(NODE_ROUTERS)) {
    const { port, stop } = await serve(await listenerOf(HANDLERS));
    stops.push(stop);
    routers.push({ name, ask: asker(agent, port) });
  }
  const table = JSON.stringify(HANDLERS.map(({ path, tag }) => ({ path: decodeURI(path), tag })));
  // Debian's, which has the packages.
  const python = spawn('/usr/bin/python3', [join(import.meta.dirname, 'routers.py'), table]);
  const php = spawn('php', ['-S', '127.0.0.1:0', join(import.meta.dirname, 'router.php')], {
    env: { ...process.env, HANDLERS: table },
  });
  stops.push(() => python.kill('SIGKILL'), () => php.kill());
  try {
    const ports = JSON.parse((await said(python, /\{.*\}/))[0]);
    for (const [name, port] of Object.entries(ports)) routers.push({ name, ask: asker(agent, port) });
    const [, port] = await said(php, /127\.0\.0\.1:(\d+)\) started/);
    routers.push({ name: 'PHP', ask: asker(agent, Number(port)) });
  } catch (error) {
    for (const stop of stops) stop();
    throw error;
  }
  return { routers, stop: () => stops.forEach((stop) => stop()) };
} // prettier-ignore

/**
 * Waits until a program has printed something.
 *
 * @param {import('node:child_process').ChildProcessWithoutNullStreams} program
 * @param {RegExp} wanted
 * @returns {Promise<RegExpExecArray>}
 */
function said(program, wanted) {
  let text = '';
  return new Promise((resolve, reject) => {
    const read = (/** @type {Buffer} */ chunk) => {
      text += chunk.toString();
      const found = wanted.exec(text);
      if (found !== null) resolve(found);
    };
    program.stdout.on('data', read);
    program.stderr.on('data', read);
    program.on('error', reject);
    program.on('exit', () => reject(new Error(`${program.spawnfile} ended: ${text}`)));
  });
}

/** @param {Agent} agent @param {number} port @returns {Router['ask']} */
function asker(agent, port) {
  return (target) =>
    new Promise((resolve, reject) => {
      const sent = request({ agent, port, host: '127.0.0.1', path: target }, (res) => {
        let text = '';
        res.on('data', (chunk) => (text += chunk));
        res.on('error', reject);
        res.on('end', () => resolve(res.statusCode === 200 ? JSON.parse(text) : null));
      });
      sent.on('error', reject);
      sent.end();
    });
}
