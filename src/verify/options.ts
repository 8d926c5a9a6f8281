import type { JSONWebKeySet } from 'jose';
import {
  IDENTITY_PRESET_NAMES,
  identityNames,
  identityPreset,
  type IdentityPresetName,
} from '../config/schema/identity-presets.js';
import { factFields, IDENTITY_FACTS, type IdentityFact } from '../domain/identity-fields.js';
import { foldName } from '../http/protected-fields.js';

export interface VerifyOptions {
  /** The keys: the URL of Latchkey's `/.well-known/jwks.json`, or a key set. */
  readonly jwks: string | URL | JSONWebKeySet;
  /** Latchkey's `identity.assertion.issuer`. */
  readonly issuer: string;
  /** Latchkey's `identity.assertion.audience`. */
  readonly audience: string;
  /** Name of the header that carries the assertion (default `X-Auth-Assertion`). */
  readonly header?: string;
  /** Allowed difference between the clocks of both machines, seconds (default 5). */
  readonly clockSkew?: number;
  /**
   * `if-present` (the default): a bound assertion must match the request. `required`: unbound ones
   * are refused, for a Latchkey with `identity.assertion.bind: request`.
   */
  readonly bound?: 'if-present' | 'required';
  /** Accept assertions of `latchkey mint` (`"dev": true`); for tests only (default false). */
  readonly allowDev?: boolean;
  /** Latchkey's `identity.preset` (default `latchkey`). */
  readonly preset?: IdentityPresetName;
  /** Latchkey's `identity.headers`, where they differ from the preset; null: not sent. */
  readonly headers?: Readonly<Partial<Record<IdentityFact, string | null>>>;
}

export interface AssertionClaims {
  readonly iss: string;
  readonly aud: string | readonly string[];
  readonly sub: string;
  /** Seconds since 1970. */
  readonly iat: number;
  /** Seconds since 1970. */
  readonly exp: number;
  readonly customer_id: string;
  readonly login: string;
  readonly role: string;
  /** Scopes, separated by spaces. */
  readonly scope: string;
  /** Absent when the token is not limited to services. */
  readonly services?: readonly string[];
  readonly credential: 'token' | 'legacy_key' | 'session' | 'jwt';
  /** Absent for a session and a JWT. */
  readonly token_id?: string;
  /** Method of the request that the assertion is bound to. */
  readonly htm?: string;
  /** Base64url SHA-256 of the target of the request that the assertion is bound to. */
  readonly htu?: string;
  /** `X-Request-Id` of the request that the assertion is bound to. */
  readonly rid?: string;
  /** Present when the assertion was created by `latchkey mint`. */
  readonly dev?: true;
}

export const DEFAULT_HEADER = 'X-Auth-Assertion';
export const DEFAULT_CLOCK_SKEW = 5;
/** Maximum clock skew, in seconds. A larger one would accept long-expired assertions. */
const MAX_CLOCK_SKEW = 300;

export type HeaderOptions = Pick<VerifyOptions, 'preset' | 'headers' | 'header'>;

const OPTIONS: readonly string[] = [
  'jwks', 'issuer', 'audience', 'header', 'clockSkew', 'bound', 'allowDev', 'preset', 'headers',
] satisfies (keyof VerifyOptions)[]; // prettier-ignore

/** A mistyped name would turn off a check without notice. @throws TypeError that names the option */
export function requireOptions(options: VerifyOptions | undefined): void {
  const given: Partial<VerifyOptions> = options ?? {};
  for (const name of Object.keys(given))
    must(OPTIONS.includes(name), `${name} is unknown; there are ${OPTIONS.join(', ')}`);
  const { jwks, issuer, audience, clockSkew, bound } = given;
  for (const [name, value] of Object.entries({ issuer, audience }))
    must(
      typeof value === 'string' && value !== '',
      `${name} is required: the ${name} in Latchkey's configuration`,
    );
  must(isKeySource(jwks), 'jwks is the whole URL of the published keys, or a key set like { keys: [] }');
  must(
    clockSkew === undefined ||
      (typeof clockSkew === 'number' && clockSkew >= 0 && clockSkew <= MAX_CLOCK_SKEW),
    `clockSkew is a number of seconds from 0 to ${MAX_CLOCK_SKEW}`,
  );
  must(
    bound === undefined || bound === 'if-present' || bound === 'required',
    'bound is "if-present" or "required"',
  );
  requireHeaderOptions(given);
}

export function requireHeaderOptions({ preset, headers, header }: HeaderOptions): void {
  must(header === undefined || isFieldName(header), 'header is the name of a header');
  must(preset === undefined || IDENTITY_PRESET_NAMES.includes(preset), `preset is one of ${IDENTITY_PRESET_NAMES.join(', ')}`);
  must(headers !== null, 'headers is an object of header names');
  for (const [fact, name] of Object.entries(headers ?? {})) {
    must(IDENTITY_FACTS.some((each) => each === fact), `headers names headers of ${IDENTITY_FACTS.join(', ')}`);
    must(name === undefined || name === null || isFieldName(name), `headers.${fact} is the name of a header, or null`);
  }
} // prettier-ignore

function must(isRight: boolean, message: string): void {
  if (!isRight) throw new TypeError(`latchkey/verify: options.${message}`);
}

function isKeySource(jwks: unknown): boolean {
  // A host without a scheme, like localhost:8080, parses as a URL, too.
  if (typeof jwks === 'string' || jwks instanceof URL)
    return URL.canParse(String(jwks)) && /^https?:$/.test(new URL(jwks).protocol);
  return Array.isArray((jwks as { keys?: unknown } | null | undefined)?.keys);
}

function isFieldName(name: unknown): boolean {
  return typeof name === 'string' && /^[\w!#$%&'*+.^`|~-]+$/.test(name);
}

/** The fields that an upstream must not trust, and those that a valid assertion vouches for. */
export interface IdentityHeaders {
  /** Whether a reader may take a field for one of them, or for the assertion or request id. */
  readonly isReplaced: (name: string) => boolean;
  /** The fields that Latchkey sends along with this assertion: alternating names and values. */
  readonly of: (claims: AssertionClaims) => string[];
}

export function identityHeaders({ preset = 'latchkey', headers = {}, header = DEFAULT_HEADER }: HeaderOptions): IdentityHeaders {
  const { headers: defaults, reserved, reservedPrefixes } = identityPreset(preset);
  const names = identityNames(preset, headers);
  const sent = Object.values(names).filter((name) => name !== null);
  const kept = new Set([header.toLowerCase(), 'x-request-id']);
  const replaced = new Set([...sent, ...Object.values(defaults), ...reserved, ...kept].map(foldName));
  return {
    isReplaced: (name) => {
      if (kept.has(name.toLowerCase())) return false;
      const folded = foldName(name);
      return replaced.has(folded) || reservedPrefixes.some((prefix) => folded.startsWith(prefix));
    },
    of: (claims) =>
      factFields(names, {
        user_id: claims.sub,
        customer_id: claims.customer_id,
        login: claims.login,
        role: claims.role,
        scope: claims.scope,
        services: claims.services?.join(',') ?? '',
        credential: claims.credential,
        token_id: claims.token_id ?? '',
      }),
  };
} // prettier-ignore
