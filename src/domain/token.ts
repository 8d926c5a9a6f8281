import type { EpochMs } from './time.js';

/** An API token, or a legacy key that was migrated to one. The secret itself is never part of it. */
export interface Token {
  readonly id: string;
  /** SHA-256 of the secret, base64url. */
  readonly digest: string;
  readonly kind: 'token' | 'legacy_key';
  /** The owner. The token's customer is the owner's, whoever that is by now. */
  readonly userId: string;
  readonly name: string;
  /** Scopes in the order given at creation. */
  readonly scopes: readonly string[];
  /** Services that the token is restricted to, in the order given; empty when it is not restricted. */
  readonly services: readonly string[];
  readonly serviceId: string | null;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
  readonly expiresAt: EpochMs | null;
  /** Set for a token that a directory file declares: only the file changes it, and once revoked it never comes back. */
  readonly declared?: true | undefined;
  /** The token that it replaces, when a rotation made it. */
  readonly predecessorId?: string | undefined;
  /** Set once it was rotated: it expires after an overlap, in which both it and its replacement are accepted. */
  readonly rotated?: Rotated | undefined;
  /** Id of the token whose bucket its requests are counted in, where a token made it by a rotation; absent: its own. */
  readonly rateId?: string | undefined;
  /** What limits its use, absent from a token without limits. An older Latchkey does not read a record that has it. */
  readonly restrictions?: TokenRestrictions | undefined;
}

/** What is known of the rotation of a token. */
interface Rotated {
  /** Id of the replacement, the latest of several. */
  readonly to: string;
  /** Milliseconds that the token would have lasted from its creation on; null for ever. */
  readonly lifetime: number | null;
}

/** What limits the use of one token; each member is absent unless it is set, and one is there at least. */
export interface TokenRestrictions {
  /** Refused like an unknown token until it is resumed. */
  readonly suspended?: true | undefined;
  /** Requests in a time, as {@link parseRate} reads it: `600/1m`. */
  readonly rate?: string | undefined;
  /** Addresses and CIDR ranges of the clients that may use it; not empty. */
  readonly addresses?: readonly string[] | undefined;
}

/** The last use of a token. Kept apart from the token, because it changes with the traffic. */
export interface TokenUse {
  readonly at: EpochMs;
  readonly ip: string;
  /** The User-Agent of that client; null when it sent none. */
  readonly userAgent: string | null;
}

export interface SessionUse extends TokenUse {
  /** When it ends unless it is used again. */
  readonly idleEndsAt: EpochMs;
}

/** Whether the token is refused at that time: from the second of its expiry on. */
export function isExpired(token: Pick<Token, 'expiresAt'>, now: EpochMs): boolean {
  return token.expiresAt !== null && now >= token.expiresAt;
}
