import { identityPreset } from '../config/schema/identity-presets.js';
import { factFields, IDENTITY_FACTS, type IdentityFact } from '../domain/identity-fields.js';
import { foldName } from '../http/protected-fields.js';
import { type AssertionClaims, DEFAULT_HEADER, type HeaderOptions } from './options.js';

/** The fields that an upstream must not trust, and those that a valid assertion vouches for. */
export interface IdentityHeaders {
  /** Whether a reader may take a field for one of them, or for the assertion or request id. */
  readonly isReplaced: (name: string) => boolean;
  /** The fields that Latchkey sends along with this assertion: alternating names and values. */
  readonly of: (claims: AssertionClaims) => string[];
}

export function identityHeaders({ preset = 'latchkey', headers = {}, header = DEFAULT_HEADER }: HeaderOptions): IdentityHeaders {
  const { headers: defaults, reserved, reservedPrefixes } = identityPreset(preset);
  const names = Object.fromEntries(
    IDENTITY_FACTS.map((fact) => {
      const given = headers[fact];
      return [fact, given === undefined ? (defaults[fact] ?? null) : given];
    }),
  ) as Record<IdentityFact, string | null>;
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
