import { foldName, FORWARDED_PREFIX, NEVER_FORWARDED, ProtectedFields } from '../http/protected-fields.js';
import { credentialNames, reservedIdentity } from './derived.js';
import { FORWARDED_IDENTITY } from './schema/identity-presets.js';
import type { Config } from './schema/config.js';

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
