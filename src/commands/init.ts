import { lstat, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../files/make-folder.js';
import { localHasher } from '../accounts/hasher.js';
import { Passwords } from '../accounts/passwords.js';
import { describeSystemError } from '../domain/system-error.js';
import { CommandFailed } from './terminal/failure.js';
import { readNewPassword } from './terminal/password.js';
import { shellWord } from './terminal/shell-word.js';
import { print } from './terminal/print.js';

const LOGIN = 'admin';

const CONFIGURATION = `# The smallest configuration with its own users. All keys: latchkey schema, docs/configuration.md
upstream: http://127.0.0.1:3000 # the address of your API
listen: { host: 127.0.0.1, port: 8080 } # 0.0.0.0 accepts requests from other machines
store: { type: lmdb, path: ./data } # tokens and sessions
directory: { file: ./directory.yaml } # users
`;

/** @param hash of the password of the only user */
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

/**
 * Writes a first configuration and a directory file with one superuser, and prints what to run
 * next.
 *
 * @param folder is created if it does not exist
 * @throws CommandFailed if one of the files exists; nothing is written then
 */
export async function init(folder: string, options: { passwordFile?: string }): Promise<void> {
  const [file, directory] = ['latchkey.yaml', 'directory.yaml'].map((name) => join(folder, name)) as [string, string];
  for (const path of [file, directory]) await refuseExisting(path);
  const hash = await new Passwords(localHasher, 1).hash(await readNewPassword(options));
  try {
    makeFolder(folder);
    await writeNew(directory, directoryWith(hash));
    await writeNew(file, CONFIGURATION).catch(async (error: unknown) => {
      await rm(directory);
      throw error;
    });
  } catch (error) {
    throw new CommandFailed(`${folder}: ${describeSystemError(error)}; nothing was written`);
  }
  print(`Wrote ${file} and ${directory}, with the superuser "${LOGIN}".

1. Set upstream in ${file} to the address of your API.
2. Check and serve:
     latchkey check --config ${shellWord(file)}
     latchkey serve --config ${shellWord(file)}
3. Create a token, and call your API with it:
     curl -d username=${LOGIN} --data-urlencode 'password=PASSWORD' http://127.0.0.1:8080/tokens
     curl -H 'Service-Key: TOKEN' http://127.0.0.1:8080/
`);
} // prettier-ignore

async function refuseExisting(path: string): Promise<void> {
  const known = await lstat(path).catch(() => undefined);
  if (known !== undefined)
    throw new CommandFailed(`${path} already exists, and init never overwrites a file; choose another folder: latchkey init DIR`);
} // prettier-ignore

/** Writes a whole file or none. Fails if the file exists by now. */
async function writeNew(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } catch (error) {
    // A full disk leaves a part, and the next call would refuse to overwrite it.
    await rm(path, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}
