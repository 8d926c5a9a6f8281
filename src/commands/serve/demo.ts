import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { customAlphabet } from 'nanoid';
import { parse, stringify } from 'yaml';
import { loadConfig } from '../../config/load.js';

const CONFIG = fileURLToPath(new URL('../../../config/demo.yaml', import.meta.url));

const newPassword = customAlphabet('23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz', 20);

/** Options of `latchkey demo`. */
export interface DemoOptions {
  readonly upstream?: string;
  readonly port: string;
  readonly data: string;
}

/** A user of the demo, as its directory file holds it. */
interface DemoUser {
  readonly login: string;
  readonly password: string;
  readonly role: string;
}

/** Serves with users to try it out, and prints the curl lines to try it with. */
export async function demo(options: DemoOptions): Promise<void> {
  const { startEcho } = await import('./echo.js');
  const { startServer } = await import('./start-server.js');
  const data = resolve(options.data);
  mkdirSync(data, { recursive: true, mode: 0o700 });
  const file = join(data, 'directory.yaml');
  const users = writeDirectoryOnce(file);
  const upstream = options.upstream ?? (await startEcho()).url;
  const env = {
    ...process.env,
    LATCHKEY_DEMO_PORT: options.port,
    LATCHKEY_DEMO_DATA: data,
    LATCHKEY_DEMO_UPSTREAM: upstream,
  };
  const loaded = loadConfig(CONFIG, env);
  await startServer({
    loaded,
    env,
    welcome: (url, admin) =>
      welcome({
        url,
        admin,
        page: loaded.config.interface.ui.path,
        data,
        file,
        upstream,
        users,
        echo: options.upstream === undefined,
      }),
  });
}

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
  const text = `# Users of "latchkey demo". Made once; delete this folder to start over.\n${stringify(directory)}`;
  try {
    writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return (parse(readFileSync(file, 'utf8')) as { users: DemoUser[] }).users;
}

interface Welcome {
  readonly url: string;
  readonly admin: string;
  readonly page: string;
  readonly data: string;
  readonly file: string;
  readonly upstream: string;
  readonly users: readonly DemoUser[];
  readonly echo: boolean;
}

function welcome({ url, admin, page, data, file, upstream, users, echo }: Welcome): string {
  const user = users.find(({ role }) => role === 'superuser') ?? users[0];
  if (user === undefined) throw new Error(`${file} has no user; delete the folder to start over`);
  const cookies = quote(join(data, 'cookies.txt'));
  const key = join(data, 'token.txt');
  const list = users
    .map(({ login, password, role }) => `  ${login.padEnd(24)} ${password}   ${role}`)
    .join('\n');
  const keep = `sed -n 's/.*"access_token":"\\([^"]*\\)".*/Service-Key: \\1/p' > ${quote(key)}`;
  return `
Latchkey guards ${upstream}${echo ? ' (a built-in upstream that shows what it receives)' : ''} at ${url}
The web page, to see, create and revoke tokens: ${url}${page}
Health and metrics: ${admin}/readyz ${admin}/metrics
Users (kept in ${file}):

${list}

Try it in another terminal. Each line can be pasted as it stands.

# Log in. The session cookie is kept in a file.
curl -s -c ${cookies} -d 'user=${user.login}' -d 'password=${user.password}' ${url}/login

# Create an API token. Its secret is shown once; the line keeps it as a header in a file.
curl -s -d 'username=${user.login}' -d 'password=${user.password}' -d 'name=demo' ${url}/tokens | tee /dev/stderr | ${keep}

# Call the upstream with the token${echo ? ': it answers with the identity headers it received' : ''}.
curl -s -H @${quote(key)} ${url}/service/SVC1/version/1

# Call it with the session, and without any credential.
curl -s -b ${cookies} ${url}/service/SVC1/version/1
curl -s -i ${url}/service/SVC1/version/1

# List your tokens: name, scope, last use.
curl -s -b ${cookies} ${url}/tokens

# Revoke the token. The next call with it is refused.
curl -s -i -X DELETE -H @${quote(key)} ${url}/tokens/self
curl -s -i -H @${quote(key)} ${url}/service/SVC1/version/1

Stop with Ctrl-C.
`;
}

function quote(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
