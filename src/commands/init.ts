import { lstat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { localHasher, Passwords } from '../accounts/passwords.js';
import { describeSystemError } from '../util/system-error.js';
import { parseUpstreamUrl, SOCKET_URL_RULE } from '../domain/urls.js';
import { makeFolder } from '../files/files.js';
import { CommandFailed, print, shellWord } from './terminal/output.js';
import { readNewPassword } from './terminal/password.js';

const LOGIN = 'admin';
/** Fails if the file exists by now. */
const NEW = { flag: 'wx', mode: 0o600, flush: true } as const;

function configurationWith(upstream: string): string {
  return `# The smallest configuration with its own users. All keys: latchkey schema, docs/configuration.md
upstream: ${upstream} # the address of your API
listen: { host: 127.0.0.1, port: 8080 } # 0.0.0.0 accepts requests from other machines
store: { type: lmdb, path: ./data } # tokens and sessions
directory: { file: ./directory.yaml } # users
`;
}

interface InitOptions {
  readonly upstream?: string;
  readonly passwordFile?: string;
}

function directoryWith(hash: string): string {
  return `# Who may log in. Applied at start and on reload.
customers:
  - { id: C1, name: Example }
users:
  - id: U1
    customer_id: C1
    login: ${LOGIN}
    name: Administrator
    role: superuser
    password_hash: '${hash}' # latchkey hash-password prints another one
`;
}

/** @throws CommandFailed if a file exists or the upstream is not a URL; nothing is written then */
export async function init(folder: string, options: InitOptions): Promise<void> {
  const upstream = readUpstream(options.upstream);
  const [file, directory] = ['latchkey.yaml', 'directory.yaml'].map((name) => join(folder, name)) as [string, string];
  for (const path of [file, directory]) await refuseExisting(path);
  const hash = await new Passwords(localHasher, 1).hash(await readNewPassword(options));
  try {
    makeFolder(folder);
    await writeFile(directory, directoryWith(hash), NEW);
    await writeFile(file, configurationWith(upstream), NEW);
  } catch (error) {
    throw new CommandFailed(`${folder}: ${describeSystemError(error)}; delete what init has written there, and run it again`);
  }
  const config = `--config ${shellWord(file)}`;
  print(`Wrote ${file} and ${directory}, with the superuser "${LOGIN}". Requests go to ${upstream}.

1. Serve:
     latchkey serve ${config}
2. Create a token:
     TOKEN=$(latchkey token create --user ${LOGIN} --name first ${config})
3. Call your API with it:
     curl -H "Service-Key: $TOKEN" http://127.0.0.1:8080/
`);
} // prettier-ignore

function readUpstream(text = 'http://127.0.0.1:3000'): string {
  const parsed = parseUpstreamUrl(text);
  if (parsed === undefined)
    throw new CommandFailed(`--upstream: expected the URL of your API, like http://127.0.0.1:3000, or ${SOCKET_URL_RULE}`);
  return parsed.socketPath === null ? `${parsed.origin}${parsed.prefix}` : parsed.origin;
} // prettier-ignore

async function refuseExisting(path: string): Promise<void> {
  const known = await lstat(path).catch(() => undefined);
  if (known !== undefined)
    throw new CommandFailed(`${path} already exists, and init never overwrites a file; choose another folder: latchkey init DIR`);
} // prettier-ignore

export async function hashPassword(options: { passwordFile?: string }): Promise<void> {
  const password = await readNewPassword(options);
  print(`${await new Passwords(localHasher, 1).hash(password)}\n`);
}
