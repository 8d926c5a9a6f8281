import type { Add } from './fault.js';
import { foldName, FORWARDED_PREFIX, NEVER_FORWARDED, ProtectedFields } from '../http/protected-fields.js';
import { FORWARDED_IDENTITY, identityPreset } from './schema/identity-presets.js';
import type { Config } from './schema/config.js';
import { credentialNames, reservedIdentity, settingsOf } from './derived.js';
import type { Source } from './source.js';

export function checkIdentity(config: Config, add: Add): void {
  const { headers, claims, assertion } = config.identity;
  const seen = new Map<string, string>();
  const names: (readonly [what: string, path: readonly string[], name: string | null])[] = [
    ...Object.entries(headers).map(([fact, name]) => [fact, ['headers', fact], name] as const),
    ...Object.entries(claims).map(([name, claim]) => [claim, ['claims', name], name] as const),
    ['assertion', ['assertion', 'header'], assertion.enabled ? assertion.header : null],
  ];
  for (const [what, path, name] of names) {
    if (name === null) continue;
    const at = ['identity', ...path];
    if (isTaken(name, config)) add(at, 'this header already has a different meaning; choose another name');
    const folded = foldName(name);
    const other = seen.get(folded);
    if (other !== undefined) add(at, `this is already the header of ${other}; choose another name`);
    seen.set(folded, what);
  }
  checkRoleNames(config, add);
  if (assertion.enabled) checkAssertion(config, add);
}

/** Upstreams of some presets read the role as a list: a comma would give the user another group. */
function checkRoleNames({ identity, policy }: Config, add: Add): void {
  if (!identityPreset(identity.preset).roleIsList || identity.headers.role === null) return;
  for (const role of Object.keys(policy.roles)) {
    if (!role.includes(',')) continue;
    const message = `its name has a comma, and with identity.preset: ${identity.preset} upstreams read the role as a list`;
    add(['policy', 'roles', role], message);
  }
}

function checkAssertion({ identity, store }: Config, add: Add): void {
  for (const key of ['issuer', 'audience'] as const) {
    if (identity.assertion[key] !== null) continue;
    add(['identity', 'assertion', key], 'is required when assertions are enabled');
  }
  if (store.type !== 'lmdb' && store.sealing_key === null) {
    add(
      ['store', 'sealing_key'],
      'is required when identity.assertion is enabled; make one with "openssl rand -hex 32"',
    );
  }
}

const ORDINARY = ['content-type', 'content-encoding', 'cookie', 'via', 'traceparent', 'tracestate'];

const TAKEN: ReadonlySet<string> = new Set([...ORDINARY, ...NEVER_FORWARDED]);

/** Whether a field name, in any spelling, has a meaning other than a fact about the user. */
export function isTaken(name: string, config: Pick<Config, 'interface' | 'jwt_issuers'>): boolean {
  const folded = foldName(name);
  return (
    TAKEN.has(folded) ||
    (folded.startsWith(FORWARDED_PREFIX) && !FORWARDED_IDENTITY.has(folded)) ||
    folded.startsWith('proxy-') ||
    folded.startsWith('sec-') ||
    credentialNames(config).some((each) => foldName(each) === folded)
  );
}

/** Whether a field that a client sends under a name does not reach the upstream unchanged. */
export function isNotForwarded(name: string, config: Config): boolean {
  const { names, prefixes } = reservedIdentity(config);
  const fields = new ProtectedFields({
    protectedNames: names,
    protectedPrefixes: prefixes,
    credentialNames: credentialNames(config),
  });
  const folded = foldName(name);
  return fields.has(folded) || folded === 'authorization' || isTaken(name, config);
}

/** An origin of an application: `capacitor://localhost`, `chrome-extension://abc`. */
const OF_APPLICATION = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s*A-Z]+$/;
const HTTP = /^https?:$/;

/** An origin that no browser sends would allow nobody, and look as if it did. */
export function checkCors(config: Config, { written }: Pick<Source, 'written'>, add: Add): void {
  for (const [settings, at] of settingsOf(config, 'cors')) {
    if (settings === false || settings == null) continue;
    const origins = [settings.origins].flat();
    origins.forEach((origin, i) => {
      const path = Array.isArray(settings.origins) ? [...at, 'origins', i] : [...at, 'origins'];
      const fault = originFault(origin, origins, Object.hasOwn(written, path.join('.')));
      if (fault !== undefined) add(path, fault);
    });
    if (settings.credentials && origins.includes('*'))
      add([...at, 'credentials'], 'browsers refuse credentials with origins: "*"; list the origins');
  }
}

/** @param hidden whether the origin was expanded, so that it must not be shown */
function originFault(origin: string, all: readonly string[], hidden: boolean): string | undefined {
  if (origin === 'null') return undefined;
  if (origin === '*')
    return all.length > 1 ? '"*" must be the only origin; remove it or the others' : undefined;
  if (origin.includes('*')) return 'origins are compared exactly; list each one, or write "*" alone for all';
  const expected = 'expected an origin as browsers send it: scheme, host and a port that is not the default';
  if (!URL.canParse(origin)) return `${expected}, like https://app.example`;
  const { origin: sent, protocol } = new URL(origin);
  if (sent === origin || (!HTTP.test(protocol) && OF_APPLICATION.test(origin))) return undefined;
  if (!HTTP.test(protocol)) return `${expected}, like https://app.example`;
  return `${expected}${hidden ? ', like https://app.example' : `; write ${sent}`}`;
}
