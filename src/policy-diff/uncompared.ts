import type { LoadedConfig } from '../config/load.js';

/**
 * Settings outside the policy that also decide requests: who holds which credential, and how
 * requests are read.
 *
 * They are not compared, so a difference is reported.
 */
const SETTINGS: readonly (readonly [path: string, what: string])[] = [
  ['jwt_issuers', 'whose JWTs are credentials, and for which roles and scopes'],
  ['login', 'who logs in, and with which role'],
  ['directory', 'who the users are'],
  ['tokens', 'which tokens are accepted, from where, and how often'],
  ['sessions', 'how long sessions last'],
  ['rate_limit', 'how many writes are allowed'],
  ['cors', 'which pages of other origins may read responses, and how Latchkey responds to preflights'],
  ['interface.vendor', 'which header holds the credential'],
  ['interface.bearer', 'which header holds the credential'],
  ['interface.session_cookie', 'which cookie holds the session'],
  ['listen.trusted_proxies', 'which proxies may set the address and the host of the client'],
  ['limits', 'which requests are too large'],
  ['identity', 'what upstreams learn about the user'],
  ['upstreams', 'where requests go'],
];

/** Returns the settings that differ and are not compared, each with what it decides. */
export function uncomparedSettings({ config: a }: LoadedConfig, { config: b }: LoadedConfig): string[] {
  const notes = SETTINGS.filter(([path]) => differ(valueAt(a, path), valueAt(b, path))).map(
    ([path, what]) => `${path} differs and is not compared: ${what}`,
  );
  const cors = [a, b].map(({ routes, default_route: rest }) =>
    [...routes, rest].flatMap(({ cors }) => (cors === undefined ? [] : [cors])),
  );
  if (differ(cors[0], cors[1])) notes.push('cors of routes differs and is not compared');
  return notes;
}

function differ(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) !== JSON.stringify(b);
}

function valueAt(config: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce((value: unknown, key) => (value as Record<string, unknown> | undefined)?.[key], config);
}
