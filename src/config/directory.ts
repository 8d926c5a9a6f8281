import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { loginKey, RESERVED_LOGINS } from '../domain/user.js';
import { type DirectoryFile, directorySchema, isWithoutSections } from './schema/directory-file.js';
import { collectFaults, ConfigError, type Fault } from './fault.js';
import { nearId, suggestion } from './nearest.js';
import type { Path } from './positions.js';
import { checkDeclaredTokens } from './declared-token-checks.js';
import type { CheckedDirectory, DirectoryRules } from './directory-rules.js';
import { checkSource } from './check-source.js';
import { isSecret, secretKeys } from './schema-walk.js';
import { type ExpansionRule, readSource, type Source } from './source.js';

/** Other user data appears in responses and logs, where an expanded secret would leak. */
const EXPANSION: ExpansionRule = {
  allowed: (path) => isSecret(directorySchema, path),
  where: secretKeys(directorySchema).join(', '),
};

const NO_SECTIONS =
  'the file declares nothing, so every user would be removed; write "customers: []" if that is intended';

/**
 * Reads and checks a directory file.
 * @param rules of the configuration; without them roles, scopes and lifetimes are not checked
 * @throws ConfigError with every fault
 */
export function loadDirectory(
  file: string,
  env: NodeJS.ProcessEnv = process.env,
  rules?: DirectoryRules,
  warn?: (message: string) => void,
): CheckedDirectory {
  const source = readSource(resolve(file), directorySchema, env, EXPANSION);
  const directory = checkSource(source, directorySchema);
  if (isWithoutSections(source.value)) throw new ConfigError([source.fault([], NO_SECTIONS)]);
  const faults = crossCheck(directory, source, rules);
  if (faults.length > 0) throw new ConfigError(faults);
  if (warn !== undefined) warnOfPlainKeys(directory, source, warn);
  return { ...directory, max_token_lifetime: rules?.maxLifetime ?? null };
}

function warnOfPlainKeys(
  { legacy_keys: keys = [] }: DirectoryFile,
  { file, lines, written }: Source,
  warn: (message: string) => void,
): void {
  const plain = keys.findIndex(
    ({ key }, i) => key != null && !Object.hasOwn(written, `legacy_keys.${i}.key`),
  );
  if (plain < 0 || !isReadableByOthers(file)) return;
  const hint = 'use key_sha256, or chmod 600 the file';
  warn(
    `${file}:${lines[`legacy_keys.${plain}.key`]}: warning: a plain-text key in a file that other users can read; ${hint}`,
  );
}

/** Bytes of a login that a store accepts as a key. Folding may turn one character into 18. */
const MAX_LOGIN_BYTES = 1_024;

function crossCheck(directory: DirectoryFile, source: Source, rules: DirectoryRules | undefined): Fault[] {
  const { faults, add } = collectFaults((path, message) => source.fault(path, message));
  const { customers, services, users, legacy_keys: keys = [], tokens } = directory;
  const unique = <T>(list: string, entries: readonly T[], key: string, valueOf: (entry: T) => string) => {
    const seen = new Set<string>();
    entries.map(valueOf).forEach((value, i) => {
      if (value !== '' && seen.has(value)) add([list, i, key], 'given twice');
      seen.add(value);
    });
  };
  unique('customers', customers, 'id', ({ id }) => id);
  unique('services', services, 'id', ({ id }) => id);
  unique('users', users, 'id', ({ id }) => id);
  unique('users', users, 'login', ({ login }) => loginKey(login));
  unique('legacy_keys', keys, 'key', ({ key }) => key ?? '');
  unique('legacy_keys', keys, 'key_sha256', ({ key_sha256: digest }) => digest?.toLowerCase() ?? '');
  unique('tokens', tokens, 'id', ({ id }) => id);
  unique('tokens', tokens, 'secret_sha256', ({ secret_sha256: digest }) => digest.toLowerCase());

  const ids = customers.map(({ id }) => id);
  const known = new Set(ids);
  for (const [list, entries] of Object.entries({ services, users, legacy_keys: keys })) {
    entries.forEach(({ customer_id: id }, i) => {
      if (known.has(id)) return;
      add([list, i, 'customer_id'], `no customer has this id${nearId(id, ids, 'customers')}`);
    });
  }
  const open = isReadableByOthers(source.file);
  users.forEach((user, i) => {
    const at = (key: string): Path => ['users', i, key];
    const login = loginKey(user.login);
    const reserved = RESERVED_LOGINS.find((beginning) => login.startsWith(beginning));
    if (reserved !== undefined)
      add(at('login'), `no login may begin with "${reserved}"; Latchkey assigns such logins itself`);
    if (Buffer.byteLength(login) > MAX_LOGIN_BYTES)
      add(at('login'), `longer than ${MAX_LOGIN_BYTES} bytes in Unicode normalization form KC`);
    if (user.password != null && user.password_hash != null) {
      add(at('password'), 'set either password or password_hash');
    } else if (user.password != null && open) {
      const hint = 'use password_hash (latchkey hash-password), or chmod 600 the file';
      add(at('password'), `a plain-text password in a file that other users can read; ${hint}`);
    }
    if (rules !== undefined && !rules.roles.includes(user.role)) {
      add(at('role'), `no role has this name${suggestion(user.role, rules.roles)}`);
    }
  });
  checkDeclaredTokens(directory, rules, Date.now(), add);
  return faults;
}

function isReadableByOthers(file: string): boolean {
  return (statSync(file).mode & 0o077) !== 0;
}
