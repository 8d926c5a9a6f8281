import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Every secret that tests of this process sent or received: tokens, session ids, passwords, keys.
 */
const known = new Set<string>();

/** Input files that may contain secrets: user directories, expectations, password files. */
const INPUT = /\.(ya?ml|txt|pem|mjs)$/;

/** Registers a secret. From then on, no output, log or store may contain it. */
export function rememberSecret(secret: string): void {
  if (secret.length >= 12) known.add(secret);
}

/** Registers the secrets in a response. */
export function rememberSecretsOf(headers: { 'set-cookie'?: string[] | undefined }, json: unknown): void {
  const token = (json as { access_token?: unknown } | null | undefined)?.access_token;
  if (typeof token === 'string') rememberSecret(token);
  for (const cookie of headers['set-cookie'] ?? []) {
    const [, value = ''] = /^[^=]*session=([^;]*)/.exec(cookie) ?? [];
    rememberSecret(value);
  }
}

/** @throws Error if a text contains a registered secret */
export function refuseSecretsIn(text: string, where: string): void {
  for (const secret of known) {
    if (text.includes(secret)) throw new Error(`${where} holds the secret ${JSON.stringify(secret)}`);
  }
}

/** @throws Error if a file that the server wrote below a folder contains a registered secret */
export function refuseSecretsBelow(folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    // Its writer may be removing it.
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats?.isDirectory() === true) refuseSecretsBelow(path);
    else if (stats?.isFile() === true && !INPUT.test(name))
      refuseSecretsIn(readFileSync(path, 'latin1'), path);
  }
}
