import type { IncomingMessage } from 'node:http';
import { serveHttp } from '../helpers/http.js';

/** A request as the upstream received it, without its framing. */
interface Asked {
  readonly line: string;
  readonly user: string | undefined;
  /** True if a client credential was forwarded, which must never happen. */
  readonly credentials: boolean;
  readonly body: string;
}

const AT = '2024-01-01T00:00:00Z';
const version = (id: string) => ({
  number: 1, active: true, locked: true, service_id: id, comment: '', created_at: AT, updated_at: AT, deleted_at: null,
  deployed: false, staging: false, testing: false,
}); // prettier-ignore
const service = (id: string, name: string) => ({
  id, name, customer_id: 'C1', type: 'vcl', comment: '', created_at: AT, updated_at: AT, deleted_at: null, versions: [version(id)],
}); // prettier-ignore
const USER = { id: 'superuser', name: 'S', login: 'superuser@example.com', role: 'superuser', customer_id: 'C1', created_at: AT, updated_at: AT }; // prettier-ignore
const PURGED = { status: 'ok', id: '108-1' };

/** The responses of the API behind Latchkey, with as much content as the clients need. */
const ANSWERS: readonly (readonly [RegExp, (req: IncomingMessage, body: string) => unknown])[] = [
  [
    /^GET \/realms\/\w+\/\.well-known\/openid-configuration$/,
    () => ({ issuer: 'https://accounts.example.com' }),
  ],
  [/^GET \/service$/, () => [service('SVC1', 'www'), service('SVC2', 'shop')]],
  [/^GET \/service\/SVC1$/, () => service('SVC1', 'www')],
  [/^GET \/service\/SVC1\/details$/, () => ({ ...service('SVC1', 'www'), active_version: version('SVC1') })],
  [/^GET \/service\/SVC1\/version$/, () => [version('SVC1')]],
  [/^GET \/stats\/service\/SVC1$/, () => ({ status: 'success', meta: { by: 'day' }, msg: null, data: [] })],
  [/^GET \/customer\/C1\/users$/, () => [USER]],
  [/^POST \/service$/, () => ({ ...service('SVC3', 'new'), versions: undefined })],
  [/^POST \/service\/\w+\/purge_all$/, () => ({ status: 'ok' })],
  [/^POST \/service\/\w+\/purge$/, purgedKeys],
  [/^POST \/(?:service\/\w+\/)?purge\/./, () => PURGED],
  [/^PURGE \//, () => PURGED],
];

function purgedKeys({ headers }: IncomingMessage, body: string) {
  const named = String(headers['surrogate-key'] ?? '')
    .split(' ')
    .filter((key) => key !== '');
  const keys = body === '' ? named : (JSON.parse(body) as { surrogate_keys: string[] }).surrogate_keys;
  return Object.fromEntries(keys.map((key, i) => [key, `108-${i}`]));
}

/** Starts the API behind Latchkey. */
export async function startApi(t: { teardown: (fn: () => void) => void }) {
  const asked: Asked[] = [];
  const { url } = await serveHttp(t, (req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { method, url: target = '', headers } = req;
      const body = Buffer.concat(chunks).toString();
      const credentials = ['fastly-key', 'fastly-otp', 'cookie', 'authorization'].some(
        (name) => name in headers,
      );
      asked.push({
        line: `${method} ${target}`,
        user: headers['x-auth-user-id'] as string,
        credentials,
        body,
      });
      const line = `${method} ${target.split('?', 1)[0]}`;
      const [, answer] = ANSWERS.find(([pattern]) => pattern.test(line)) ?? [];
      res.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/json' });
      res.end(JSON.stringify(answer?.(req, body) ?? { msg: 'Record not found', detail: line }));
    });
  });
  return { url, asked };
}
