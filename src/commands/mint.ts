import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { directoryRules, loadDirectory } from '../config/directory.js';
import { loadConfig } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import { identityPreset } from '../config/schema/identity-presets.js';
import type { Subject } from '../domain/credential.js';
import type { IdentityNames } from '../domain/identity-fields.js';
import type { SigningAlgorithm } from '../domain/signing-key.js';
import { loginKey, type User } from '../domain/user.js';
import { assertionClaims, identityFields } from '../gate/identity.js';
import { syntheticSubject, syntheticUser } from '../gate/what-if.js';
import { asJson, CommandFailed, print, report, WrongUsage } from './terminal/output.js';
import { onlyUser } from './with-store.js';

interface MintOptions extends Partial<Record<'as' | 'scope' | 'key' | 'config' | 'role', string>> {
  readonly services?: string[];
  readonly jwks?: true;
  readonly json?: true;
}

const DEV = 'dev';
const DEFAULT_CONFIG = 'latchkey.yaml';
/** Longest lifetime that verifiers accept. */
const LIFE_SECONDS = 3_600;

export async function mint(options: MintOptions): Promise<void> {
  const key = options.key === undefined ? undefined : readKey(options.key);
  if (options.jwks === true) {
    if (key === undefined) throw new WrongUsage('mint --jwks: pass the key with --key FILE');
    print(asJson({ keys: [await publicKeyOf(key)] }));
    return;
  }
  if (options.as === undefined) throw new WrongUsage('mint: choose a user with --as LOGIN');
  const settings = readSettings(options.config);
  const subject = subjectOf(options.as, options, settings);
  const headers = identityFields(subject, settings.names, settings.sessionScope);
  const claims = key && claimsOf(subject, settings);
  const assertion = key && claims && (await sign(key, claims));
  if (assertion !== undefined) headers.push(settings.header, assertion);
  const pairs = headers.flatMap((name, i) => (i % 2 === 0 ? [[name, headers[i + 1] ?? ''] as const] : []));
  report(
    options,
    { dev: true, assertion, claims, headers: Object.fromEntries(pairs) },
    assertion ?? pairs.map((pair) => pair.join(': ')).join('\n'),
  );
}

type Settings = ReturnType<typeof readSettings>;

function readSettings(given: string | undefined) {
  const file = given ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined);
  if (file === undefined) {
    const names = identityPreset('latchkey').headers as IdentityNames;
    const known = { issuer: DEV, audience: DEV, header: 'X-Auth-Assertion', names };
    return { ...known, sessionScope: 'global', role: 'user', users: [] as KnownUser[] };
  }
  const { config, lines } = loadConfig(file);
  const { assertion, headers } = config.identity;
  const { file: directory } = config.directory;
  return {
    issuer: assertion.issuer ?? DEV,
    audience: assertion.audience ?? DEV,
    header: assertion.header,
    names: headers,
    // A user that no directory file declares needs --role.
    role: null,
    sessionScope: compilePolicy(config, lines).policy.sessionScope,
    users: directory === null ? [] : usersOf(loadDirectory(directory, process.env, directoryRules(config))),
  };
}

type KnownUser = Pick<User, 'id' | 'customerId' | 'login' | 'role'>;

function usersOf({ users }: ReturnType<typeof loadDirectory>): KnownUser[] {
  return users.map(({ id, customer_id: customerId, login, role }) => ({ id, customerId, login, role }));
}

function subjectOf(name: string, options: MintOptions, { users, role: usual }: Settings): Subject {
  const byLogin = users.find(({ login }) => loginKey(login) === loginKey(name));
  const byId = users.find(({ id }) => id === name);
  const found = onlyUser(name, byLogin, byId);
  const role = options.role ?? found?.role ?? usual;
  if (role === null)
    throw new CommandFailed(`no directory file declares the user ${name}; choose a user of that file, or add --role`);
  const user = {
    ...syntheticUser(role, found?.customerId ?? DEV, found?.id ?? name),
    login: found?.login ?? name,
    name,
  };
  const subject = syntheticSubject(user, options);
  return subject.credential === 'session' ? subject : { ...subject, token: { ...subject.token, id: DEV } };
} // prettier-ignore

function claimsOf(subject: Subject, settings: Settings) {
  const issuedAt = Math.floor(Date.now() / 1000);
  return { ...assertionClaims(subject, settings, issuedAt, issuedAt + LIFE_SECONDS), dev: true };
}

function readKey(file: string): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(readFileSync(file));
  } catch (cause) {
    throw new CommandFailed(
      `${file} is not a readable private key; create one with "openssl genpkey -algorithm ed25519 -out ${file}"`,
      { cause },
    );
  }
  algorithmOf(key);
  return key;
}

function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): SigningAlgorithm {
  if (asymmetricKeyType === 'ed25519') return 'EdDSA';
  if (asymmetricKeyType === 'ec' && asymmetricKeyDetails?.namedCurve === 'prime256v1') return 'ES256';
  throw new CommandFailed('the key is neither an Ed25519 nor a P-256 key, so it cannot sign assertions');
}

async function publicKeyOf(key: KeyObject) {
  const { calculateJwkThumbprint, exportJWK } = await import('jose');
  const jwk = await exportJWK(createPublicKey(key));
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: algorithmOf(key), use: 'sig' };
}

async function sign(key: KeyObject, claims: Record<string, unknown>): Promise<string> {
  const { SignJWT } = await import('jose');
  const { kid, alg } = await publicKeyOf(key);
  return new SignJWT(claims).setProtectedHeader({ alg, kid, typ: 'JWT' }).sign(key);
}
