import { IDENTITY_FACTS, type IdentityFact, type IdentityNames } from '../../domain/identity-fields.js';

export interface IdentityPreset {
  /** Header of each fact. A fact is missing when the family has no header with that meaning. */
  readonly headers: Partial<Record<IdentityFact, string>>;
  /** Other names that an upstream of the family may trust, so they are dropped from client requests. */
  readonly reserved: readonly string[];
  /** Prefixes of such names, folded (`http/protected-fields`). */
  readonly reservedPrefixes: readonly string[];
  /** Whether upstreams read the header of the role as a comma-separated list. */
  readonly roleIsList: boolean;
}

/** The presets of `identity.preset`. `docs/identity.md` describes what each header carries. */
export const IDENTITY_PRESETS = {
  latchkey: {
    headers: {
      user_id: 'X-Auth-User-Id',
      customer_id: 'X-Auth-Customer-Id',
      login: 'X-Auth-Login',
      role: 'X-Auth-Role',
      scope: 'X-Auth-Scope',
      services: 'X-Auth-Services',
      credential: 'X-Auth-Credential',
      token_id: 'X-Auth-Token-Id',
    },
    reserved: ['X-Auth-Assertion'],
    reservedPrefixes: [],
    roleIsList: false,
  },
  'oauth2-proxy': {
    headers: {
      user_id: 'X-Forwarded-User',
      login: 'X-Forwarded-Preferred-Username',
      role: 'X-Forwarded-Groups',
    },
    // Latchkey drops every X-Forwarded-*. latchkey/verify drops only those that identify the user.
    reserved: ['X-Forwarded-Email', 'X-Forwarded-Access-Token'],
    reservedPrefixes: ['x-auth-request-'],
    roleIsList: true,
  },
  kong: {
    headers: {
      user_id: 'X-Consumer-ID',
      login: 'X-Consumer-Username',
      scope: 'X-Authenticated-Scope',
      token_id: 'X-Credential-Identifier',
    },
    reserved: ['X-Anonymous-Consumer', 'X-Userinfo', 'X-Access-Token', 'X-ID-Token'],
    reservedPrefixes: ['x-consumer-', 'x-credential-', 'x-authenticated-'],
    roleIsList: false,
  },
  'remote-user': {
    headers: { login: 'Remote-User', role: 'Remote-Groups' },
    reserved: [],
    reservedPrefixes: ['remote-', 'x-remote-'],
    roleIsList: true,
  },
} as const satisfies Record<string, IdentityPreset>;

export type IdentityPresetName = keyof typeof IDENTITY_PRESETS;

export const IDENTITY_PRESET_NAMES = Object.keys(IDENTITY_PRESETS) as [
  IdentityPresetName,
  ...IdentityPresetName[],
];

export function identityPreset(name: IdentityPresetName): IdentityPreset {
  return IDENTITY_PRESETS[name];
}

/** Returns the name of each header: the given one (`identity.headers`), else that of the preset. */
export function identityNames(
  preset: IdentityPresetName,
  given: Partial<Record<IdentityFact, string | null | undefined>>,
): IdentityNames {
  const defaults = identityPreset(preset).headers;
  const name = (fact: IdentityFact) => (given[fact] === undefined ? (defaults[fact] ?? null) : given[fact]);
  return Object.fromEntries(IDENTITY_FACTS.map((fact) => [fact, name(fact)])) as IdentityNames;
}

/** Folded names of `X-Forwarded-*` fields that identify a user. */
export const FORWARDED_IDENTITY: ReadonlySet<string> = new Set([
  'x-forwarded-user',
  'x-forwarded-email',
  'x-forwarded-preferred-username',
  'x-forwarded-groups',
]);
