import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { loginKey, RESERVED_LOGINS } from '../domain/user.js';
import { type DirectoryFile, directorySchema, isWithoutSections } from './schema/directory-file.js';
import { type Add, problemsOf, throwProblems, ConfigError, nearId, suggestion } from './fault.js';
import type { Path } from './yaml.js';
import { checkSource } from './check-source.js';
import { readSource, type Source } from './source.js';
import type { Config } from './schema/config.js';
import type { EpochMs } from '../util/time.js';

const NO_SECTIONS =
  'the file declares nothing, so every user would be removed; write "customers: []" if that is intended';

/**
 * @param rules of the configuration; without them roles, scopes and lifetimes are not checked
 * @throws ConfigError with every fault
 */
export function loadDirectory(
  file: string,
  env: NodeJS.ProcessEnv = process.env,
  rules?: DirectoryRules,
  warn?: (message: string) => void,
): CheckedDirectory {
  // Other user data appears in responses and logs, where an expanded secret would leak.
  const source = readSource(resolve(file), directorySchema, env, true);
  const directory = checkSource(source, directorySchema);
  if (isWithoutSections(source.value)) throw new ConfigError([source.fault([], NO_SECTIONS)]);
  const problems = problemsOf((add) => crossCheck(directory, isReadableByOthers(source.file), rules, add));
  throwProblems(problems, source);
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

function crossCheck(
  directory: DirectoryFile,
  open: boolean,
  rules: DirectoryRules | undefined,
  add: Add,
): void {
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
}

function isReadableByOthers(file: string): boolean {
  return (statSync(file).mode & 0o077) !== 0;
}

export interface DirectoryRules {
  readonly roles: readonly string[];
  readonly scopes: readonly string[];
  /** Maximum lifetime of a new token, in milliseconds; null is no limit. */
  readonly maxLifetime: number | null;
}

export interface CheckedDirectory extends DirectoryFile {
  readonly max_token_lifetime: number | null;
}

export function directoryRules({ policy, tokens }: Pick<Config, 'policy' | 'tokens'>): DirectoryRules {
  const { roles, scopes } = policy;
  return { roles: Object.keys(roles), scopes: Object.keys(scopes), maxLifetime: tokens.max_lifetime };
}

function checkDeclaredTokens(
  { users, services, legacy_keys: keys = [], tokens }: DirectoryFile,
  rules: DirectoryRules | undefined,
  now: EpochMs,
  add: Add,
): void {
  const customers = new Map(users.map((user) => [user.id, user.customer_id]));
  const legacy = new Set(keys.map((entry) => entry.key_sha256?.toLowerCase()));
  tokens.forEach((token, i) => {
    const fault = (path: readonly (string | number)[], message: string) =>
      add(['tokens', i, ...path], message);
    const customerId = customers.get(token.user_id);
    if (customerId === undefined)
      fault(['user_id'], `no user has this id${nearId(token.user_id, [...customers.keys()], 'users')}`);
    if (legacy.has(token.secret_sha256.toLowerCase()))
      fault(['secret_sha256'], 'a legacy key has the same hash; an API token needs its own secret');
    const known = services.filter((service) => service.customer_id === customerId).map(({ id }) => id);
    token.services?.forEach((service, j) => {
      if (known.length > 0 && !known.includes(service))
        fault(['services', j], `no service of the customer has this id${nearId(service, known, 'services')}`);
    });
    if (rules === undefined) return;
    token.scope.forEach((scope, j) => {
      if (!rules.scopes.includes(scope))
        fault(['scope', j], `no scope has this name${suggestion(scope, rules.scopes)}`);
    });
    const { maxLifetime } = rules;
    if (maxLifetime !== null && (token.expires_at ?? 0) > now + maxLifetime)
      fault(
        ['expires_at'],
        `is more than ${Math.floor(maxLifetime / 1000)} seconds away, which tokens.max_lifetime forbids`,
      );
  });
}
