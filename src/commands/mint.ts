import { createPrivateKey, createPublicKey, type KeyObject, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { directoryRules, loadDirectory } from '../config/directory.js';
import { loadConfig } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import { identityPreset } from '../config/schema/identity-presets.js';
import { positiveDuration } from '../config/schema/units.js';
import type { Subject } from '../domain/credential.js';
import type { IdentityNames } from '../domain/identity-fields.js';
import { refuseMethod } from '../domain/methods.js';
import type { SigningAlgorithm } from '../domain/signing-key.js';
import { loginKey, type User } from '../domain/user.js';
import { assertionClaims, boundClaims, identityFields } from '../gate/identity.js';
import { syntheticSubject, syntheticUser } from '../gate/what-if.js';
import { parseTarget } from '../domain/path.js';
import { asJson, CommandFailed, print, report, WrongUsage } from './terminal/output.js';
import { onlyUser } from './with-store.js';

interface MintOptions extends Partial<Record<Texts, string>> {
  readonly services?: string[];
  readonly expiresIn: string;
  readonly method: string;
  readonly headers?: true;
  readonly jwks?: true;
  readonly json?: true;
}

type Texts =
  'as' | 'scope' | 'key' | 'config' | 'role' | 'customer' | 'issuer' | 'audience' | 'path' | 'requestId';

const DEV = 'dev';
const DEFAULT_CONFIG = 'latchkey.yaml';
/** Longest lifetime that verifiers accept. */
const MAX_LIFE_MS = 3_600_000;

export async function mint(options: MintOptions): Promise<void> {
  const key = options.key === undefined ? undefined : readKey(options.key);
  if (options.jwks === true) {
    if (key === undefined) throw new WrongUsage('mint --jwks: pass the key with --key FILE');
    print(asJson({ keys: [await publicKeyOf(key)] }));
    return;
  }
  checkRequest(options);
  if (options.as === undefined) throw new WrongUsage('mint: choose a user with --as LOGIN');
  const settings = readSettings(options);
  const subject = subjectOf(options.as, options, settings);
  const fields = identityFields(subject, settings.names, settings.sessionScope);
  const requestId = options.requestId ?? randomUUID();
  const headers = [...fields, ...(options.path === undefined ? [] : ['X-Request-Id', requestId])];
  const claims = key === undefined ? undefined : claimsOf(subject, options, settings, requestId);
  const assertion = key === undefined || claims === undefined ? undefined : await sign(key, claims);
  if (assertion !== undefined) headers.push(settings.header, assertion);
  const pairs = headers.flatMap((name, i) => (i % 2 === 0 ? [[name, headers[i + 1] ?? ''] as const] : []));
  report(
    options,
    { dev: true, assertion, claims, headers: Object.fromEntries(pairs) },
    assertion === undefined || options.headers === true
      ? pairs.map((pair) => pair.join(': ')).join('\n')
      : assertion,
  );
}

function checkRequest({ method, path, requestId }: MintOptions): void {
  if (refuseMethod(method, '') !== undefined)
    throw new WrongUsage('mint --method: expected a registered HTTP method in capitals, like GET');
  const target = path === undefined ? undefined : parseTarget(path);
  if (typeof target === 'string') throw new WrongUsage(`mint --path: ${target}`);
  if (requestId !== undefined && !/^[\x21-\x7e]+$/.test(requestId))
    throw new WrongUsage('mint --request-id: expected visible ASCII characters without spaces');
}

type Settings = ReturnType<typeof readSettings>;

function readSettings({ config: given, issuer, audience }: MintOptions) {
  const file = given ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined);
  if (file === undefined) {
    const names = identityPreset('latchkey').headers as IdentityNames;
    const header = 'X-Auth-Assertion';
    const known = { issuer: issuer ?? DEV, audience: audience ?? DEV };
    return { ...known, header, names, sessionScope: 'global', role: 'user', users: [] as KnownUser[] };
  }
  const { config, lines } = loadConfig(file);
  const { assertion, headers } = config.identity;
  const { file: directory } = config.directory;
  return {
    issuer: issuer ?? assertion.issuer,
    audience: audience ?? assertion.audience,
    header: assertion.header,
    names: headers,
    // A user that no directory file declares needs --role.
    role: null,
    sessionScope: compilePolicy(config, lines).policy.sessionScope,
    users: directory === null ? [] : usersOf(loadDirectory(directory, process.env, directoryRules(config))),
  };
} // prettier-ignore

type KnownUser = Pick<User, 'id' | 'customerId' | 'login' | 'role'>;

function usersOf({ users }: ReturnType<typeof loadDirectory>): KnownUser[] {
  return users.map(({ id, customer_id: customerId, login, role }) => ({ id, customerId, login, role }));
}

function subjectOf(name: string, options: MintOptions, { users, role: usual }: Settings): Subject {
  const { customer, scope, services } = options;
  const byLogin = users.find(({ login }) => loginKey(login) === loginKey(name));
  const byId = users.find(({ id }) => id === name);
  const found = onlyUser(name, byLogin, byId);
  const role = options.role ?? found?.role ?? usual;
  if (role === null)
    throw new CommandFailed(`no directory file declares the user ${name}; choose a user of that file, or add --role`);
  const user = {
    ...syntheticUser(role, customer ?? found?.customerId ?? DEV, found?.id ?? name),
    login: found?.login ?? name,
    name,
  };
  const subject = syntheticSubject(user, { scope, services });
  return subject.credential === 'session' ? subject : { ...subject, token: { ...subject.token, id: DEV } };
} // prettier-ignore

function claimsOf(subject: Subject, options: MintOptions, settings: Settings, requestId: string) {
  const { issuer, audience, sessionScope } = settings;
  if (issuer === null) throw new WrongUsage('mint: pass the issuer with --issuer, or a configuration that has one with --config');
  if (audience === null) throw new WrongUsage('mint: pass the audience with --audience, or a configuration that has one with --config');
  const life = positiveDuration.safeParse(options.expiresIn);
  if (!life.success || life.data > MAX_LIFE_MS) throw new WrongUsage('mint --expires-in: expected a duration of at most 1h, like 5m');
  const issuedAt = Math.floor(Date.now() / 1000);
  const expiresAt = issuedAt + Math.ceil(life.data / 1000);
  const { method, path } = options;
  return {
    ...assertionClaims(subject, { issuer, audience, sessionScope }, issuedAt, expiresAt),
    ...(path === undefined ? {} : boundClaims({ method, target: path, requestId })),
    dev: true,
  };
} // prettier-ignore

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
