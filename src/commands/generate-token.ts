import { createHash } from 'node:crypto';
import { stringify } from 'yaml';
import { type DeclaredTokenEntry, declaredTokenSchema } from '../config/schema/declared-token.js';
import { newAccessToken, newId } from '../domain/secret.js';
import { isExpired } from '../domain/token.js';
import { WrongUsage } from './terminal/failure.js';
import { report } from './terminal/output.js';

export interface GenerateOptions {
  readonly user: string;
  readonly name?: string;
  readonly scope?: string;
  readonly services?: string[];
  readonly expiresAt?: string;
  readonly rate?: string;
  readonly address?: string[];
  readonly json?: true;
}

/** The option that sets each field of the entry. */
const OPTIONS: Readonly<Record<string, string>> = {
  user_id: '--user',
  name: '--name',
  scope: '--scope',
  services: '--services',
  expires_at: '--expires-at',
  rate: '--rate',
  addresses: '--address',
};

/**
 * Generates a secret and the directory file entry that declares its token. Reads and writes no
 * file.
 */
export function generate(options: GenerateOptions): void {
  const secret = newAccessToken();
  const entry = entryOf(options, secret);
  const read = declaredTokenSchema.safeParse(entry);
  if (!read.success) {
    const [{ path, message } = { path: [], message: 'not valid' }] = read.error.issues;
    throw new WrongUsage(`token generate: ${OPTIONS[String(path[0])] ?? path.join('.')}: ${message}`);
  }
  if (isExpired({ expiresAt: read.data.expires_at ?? null }, Date.now()))
    throw new WrongUsage('token generate: --expires-at: the time has passed; choose a later one');
  if (!options.json)
    process.stderr.write(
      'the secret is shown only once; give it to the client, and add this entry to tokens in directory.yaml:\n',
    );
  report(
    options,
    { access_token: secret, entry },
    `${secret}\n\n${stringify({ tokens: [entry] }).trimEnd()}`,
  );
}

function entryOf(
  { user, name, scope, services, expiresAt, rate, address }: GenerateOptions,
  secret: string,
): DeclaredTokenEntry {
  return {
    id: newId(),
    user_id: user,
    ...(name === undefined ? {} : { name }),
    secret_sha256: createHash('sha256').update(secret).digest('hex'),
    scope: (scope ?? 'global').split(' ').filter((each) => each !== ''),
    ...(services === undefined ? {} : { services }),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    ...(rate === undefined ? {} : { rate }),
    ...(address === undefined ? {} : { addresses: address }),
  };
}
