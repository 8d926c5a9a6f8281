import { lstatSync, type Stats, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { customAlphabet } from 'nanoid';
import { stringify } from 'yaml';
import { loadDirectory } from '../config/directory.js';
import { loadConfig } from '../config/load.js';
import { describeSystemError } from '../util/system-error.js';
import { makeFolder } from '../files/files.js';
import { listen } from '../listeners/server.js';
import { printable } from '../util/text.js';
import { CommandFailed, shellWord } from './terminal/output.js';

const CONFIG = fileURLToPath(new URL('../../config/demo.yaml', import.meta.url));

const OTHER_FOLDER = 'choose another folder with --data';

const newPassword = customAlphabet('23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz', 20);

interface DemoOptions {
  readonly upstream?: URL;
  readonly port: string;
  readonly data: string;
}

interface DemoUser {
  readonly login: string;
  readonly password: string;
  readonly role: string;
}

export async function demo(options: DemoOptions): Promise<void> {
  const { startServer } = await import('../server/compose.js');
  const data = resolve(options.data);
  needPrivateFolder(data);
  const file = join(data, 'directory.yaml');
  const users = writeDirectoryOnce(file);
  const upstream = options.upstream?.origin ?? (await startEcho());
  const env = {
    ...process.env,
    LATCHKEY_DEMO_PORT: options.port,
    LATCHKEY_DEMO_DATA: data,
    LATCHKEY_DEMO_UPSTREAM: upstream,
  };
  const loaded = loadConfig(CONFIG, env);
  const { path: page } = loaded.config.interface.ui;
  const echo = options.upstream === undefined;
  const shown = { page, data, file, upstream, users, echo };
  await startServer({ loaded, env, welcome: (url, admin) => welcome({ url, admin, ...shown }) });
}

type Started = Readonly<Record<'url' | 'admin' | 'page' | 'data' | 'file' | 'upstream', string>> & {
  readonly users: readonly DemoUser[];
  readonly echo: boolean;
};

function writeDirectoryOnce(file: string): DemoUser[] {
  const users = ['superuser', 'billing', 'engineer'].map((role) => ({
    id: `demo-${role}`,
    customer_id: 'demo',
    login: `${role}@example.com`,
    name: `Demo ${role}`,
    role,
    password: newPassword(),
  }));
  const directory = {
    customers: [{ id: 'demo', name: 'Demo Organisation' }],
    services: [
      { id: 'SVC1', customer_id: 'demo', name: 'www' },
      { id: 'SVC2', customer_id: 'demo', name: 'shop' },
    ],
    users,
  };
  const text = `# Users of "latchkey demo". Created once; delete this folder to start over.\n${stringify(directory)}`;
  try {
    writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw new CommandFailed(`${file} cannot be written: ${describeSystemError(error)}; ${OTHER_FOLDER}`);
  }
  return readUsers(file);
}

/** Returns the users whose passwords can be shown. The file may come from an earlier start. */
function readUsers(file: string): DemoUser[] {
  refuseForeign(file, lstatSync(file));
  const users = loadDirectory(file).users.flatMap(({ login, password, role }) =>
    password == null ? [] : [{ login, password, role }],
  );
  if (users.length === 0)
    throw new CommandFailed(`${file} has no user with a password; delete its folder, or ${OTHER_FOLDER}`);
  return users;
}

function welcome({ url, admin, page, data, file, upstream, users, echo }: Started): string {
  const { login = '', password = '' } = users.find(({ role }) => role === 'superuser') ?? users[0] ?? {};
  const cookies = shellWord(join(data, 'cookies.txt'));
  const key = shellWord(join(data, 'token.txt'));
  const program = shellWord(process.argv[1] ?? 'latchkey');
  const list = users
    .map((user) => printable(`  ${user.login.padEnd(24)} ${user.password}   ${user.role}`))
    .join('\n');
  const secret = `-d ${formParameter('password', password)}`;
  const keep = `sed -n 's/.*"access_token":"\\([^"]*\\)".*/Service-Key: \\1/p' > ${key}`;
  return `
Latchkey listens at ${url}, in front of ${printable(upstream)}${echo ? ' (a built-in upstream that shows what it receives)' : ''}
The web page, to see, create and revoke tokens: ${url}${page}
Health and metrics: ${admin}/readyz ${admin}/metrics
Users (kept in ${printable(file)}):

${list}

Try it in another terminal. You can paste each line unchanged.

# Log in. The session cookie is kept in a file.
curl -s -c ${cookies} -d ${formParameter('user', login)} ${secret} ${url}/login

# Create an API token. Its secret is shown once; this line saves it in a file, as a header.
curl -s -d ${formParameter('username', login)} ${secret} -d 'name=demo' ${url}/tokens | tee /dev/stderr | ${keep}

# Call the upstream with the token${echo ? ': it responds with the identity headers it received' : ''}.
curl -s -H @${key} ${url}/service/SVC1/version/1

# Call it with the session, and without any credential.
curl -s -b ${cookies} ${url}/service/SVC1/version/1
curl -s -i ${url}/service/SVC1/version/1

# List your tokens: name, scope, last use.
curl -s -b ${cookies} ${url}/tokens

# Revoke the token. The next call with it is refused.
curl -s -i -X DELETE -H @${key} ${url}/tokens/self
curl -s -i -H @${key} ${url}/service/SVC1/version/1

# Examine this server from outside: is there a way past Latchkey?
node ${program} doctor --url ${url} --path /service/SVC1/version/1

Stop with Ctrl-C.
`;
}

/** Encodes a form parameter as one shell word, for `curl -d`. */
function formParameter(name: string, value: string): string {
  const encoded = encodeURIComponent(value.toWellFormed()).replaceAll('%40', '@').replaceAll("'", '%27');
  return `'${name}=${encoded}'`;
}

const OTHERS = 0o077;

function needPrivateFolder(folder: string): void {
  try {
    makeFolder(folder, 0o700);
  } catch (error) {
    throw new CommandFailed(`${folder} cannot be created: ${describeSystemError(error)}; ${OTHER_FOLDER}`);
  }
  refuseForeign(folder, statSync(folder));
}

function refuseForeign(path: string, { uid, mode }: Stats): void {
  // Windows has neither user ids nor modes.
  if (process.getuid === undefined) return;
  if (uid !== process.getuid()) throw new CommandFailed(`${path} belongs to another user; ${OTHER_FOLDER}`);
  if ((mode & OTHERS) === 0) return;
  const rights = (mode & 0o777).toString(8).padStart(4, '0');
  const right = (mode & 0o100) === 0 ? '600' : '700';
  throw new CommandFailed(
    `other users can use ${path} (mode ${rights}); chmod ${right} it, or ${OTHER_FOLDER}`,
  );
}

const MAX_SHOWN = 64 * 1024;

async function startEcho(): Promise<string> {
  const server = createServer((req, res) => {
    let body = '';
    req.setEncoding('utf8').on('data', (chunk: string) => (body += body.length < MAX_SHOWN ? chunk : ''));
    req.on('end', () => {
      const { method, url: path, headers } = req;
      const json = JSON.stringify({ method, path, headers, body: body.slice(0, MAX_SHOWN) }, null, 2);
      res.writeHead(200, { 'Content-Type': 'application/json' }).end(`${json}\n`);
    });
  });
  return listen(server, { host: '127.0.0.1', port: 0 });
}
