import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Every secret that a test of this process got or gave: tokens, session ids, passwords, keys. */
const known = new Set<string>();

/** Files that people write secrets into: directories of users, expectations, files with a password. */
const INPUT = /\.(ya?ml|txt|pem|mjs)$/;

/** Remembers a secret. From then on no output, log and store may hold it. */
export function rememberSecret(secret: string): void {
  if (secret.length >= 12) known.add(secret);
}

/** Remembers what an answer handed out. */
export function rememberSecretsOf(headers: { 'set-cookie'?: string[] | undefined }, json: unknown): void {
  const token = (json as { access_token?: unknown } | null | undefined)?.access_token;
  if (typeof token === 'string') rememberSecret(token);
  for (const cookie of headers['set-cookie'] ?? []) {
    const [, value = ''] = /^[^=]*session=([^;]*)/.exec(cookie) ?? [];
    rememberSecret(value);
  }
}

/** @throws Error when a text holds a secret */
export function refuseSecretsIn(text: string, where: string): void {
  for (const secret of known) {
    if (text.includes(secret)) throw new Error(`${where} holds the secret ${JSON.stringify(secret)}`);
  }
}

/** @throws Error when a file that the server wrote below a folder holds a secret */
export function refuseSecretsBelow(folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    // Whoever wrote it may be removing it.
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats?.isDirectory() === true) refuseSecretsBelow(path);
    else if (stats?.isFile() === true && !INPUT.test(name))
      refuseSecretsIn(readFileSync(path, 'latin1'), path);
  }
}
