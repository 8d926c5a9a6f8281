/** What an upstream learns about the caller; each fact has a header of its own (`identity.headers`). */
export const IDENTITY_FACTS = [
  'user_id',
  'customer_id',
  'login',
  'role',
  'scope',
  'services',
  'credential',
  'token_id',
] as const;

export type IdentityFact = (typeof IDENTITY_FACTS)[number];

/** The header names that upstreams of one family read. */
export interface IdentityPreset {
  /** Header of each fact; a fact that is missing has no header there that means the same. */
  readonly headers: Partial<Record<IdentityFact, string>>;
  /** Names of the family besides those sent: an upstream may believe them, so no client gets them through. */
  readonly reserved: readonly string[];
  /** Beginnings of such names, folded (`http/protected-fields`). */
  readonly reservedPrefixes: readonly string[];
  /** The header of the role is read as a list that commas separate. */
  readonly roleIsList: boolean;
}

/** The presets of `identity.preset`. `docs/identity.md` says what each header carries. */
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
    // X-Forwarded-Email and X-Forwarded-Access-Token are dropped with every other X-Forwarded-*.
    reserved: [],
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

/** Folded names of `X-Forwarded-*` that name a caller and say nothing of the connection. */
export const FORWARDED_IDENTITY: ReadonlySet<string> = new Set([
  'x-forwarded-user',
  'x-forwarded-email',
  'x-forwarded-preferred-username',
  'x-forwarded-groups',
]);
