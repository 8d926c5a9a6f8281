// src/domain: the types and pure rules of tokens, users, sessions, paths, limits; no clock, no I/O.
// May import util.
// Every other folder may import it.

import { type EpochMs, LAST_TIME, wholeSecond } from '../util/time.js';
import { BASE62, newId } from './secret.js';

/** An API token, or a migrated legacy key. It never contains the secret itself. */
export interface Token {
  readonly id: string;
  readonly digest: string;
  readonly kind: 'token' | 'legacy_key';
  /** The owner. The token belongs to the owner's customer, whichever that currently is. */
  readonly userId: string;
  readonly name: string;
  readonly scopes: readonly string[];
  /** Services that the token is restricted to, in the order given; empty if it is unrestricted. */
  readonly services: readonly string[];
  readonly serviceId: string | null;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
  readonly expiresAt: EpochMs | null;
  /** Set on a token from a directory file: only the file changes it, and once revoked it stays revoked. */
  readonly declared?: true | undefined;
  readonly predecessorId?: string | undefined;
  /** Set once the token is rotated; it expires after an overlap with its replacement. */
  readonly rotated?: Rotated | undefined;
  /** Token whose rate bucket this one uses, if that token created it by rotation; absent: its own. */
  readonly rateId?: string | undefined;
  readonly restrictions?: TokenRestrictions | undefined;
}

interface Rotated {
  readonly to: string;
  /** Set if the rotation had no overlap: the token has expired, also by a clock that is behind. */
  readonly atOnce?: true | undefined;
  /** Set once somebody tried to rotate the token again. */
  readonly repeated?: true | undefined;
}

/** Limits on the use of one token. Members that are not set are absent; at least one is set. */
export interface TokenRestrictions {
  /** The token is refused like an unknown one until it is resumed. */
  readonly suspended?: true | undefined;
  /** Request rate in the format of {@link parseRate}: `600/1m`. */
  readonly rate?: string | undefined;
  /** Addresses and CIDR ranges of clients that may use the token; not empty. */
  readonly addresses?: readonly string[] | undefined;
}

/** The last use of a token. Stored separately, because it changes with the traffic. */
export interface TokenUse {
  readonly at: EpochMs;
  readonly ip: string;
  /** The client's User-Agent; null if it sent none. */
  readonly userAgent: string | null;
}

export interface SessionUse extends TokenUse {
  /** When the session ends unless it is used again. */
  readonly idleEndsAt: EpochMs;
}

/** Returns the restriction to services, each once; the last one is the token's service id. */
export function restrictedTo(given: readonly string[]): Pick<Token, 'services' | 'serviceId'> {
  const services = [...new Set(given)];
  return { services, serviceId: services.at(-1) ?? null };
}

/** Whether a token is expired; it is refused from the second of its expiry on. */
export function isExpired(token: Pick<Token, 'expiresAt' | 'rotated'>, now: EpochMs): boolean {
  return token.expiresAt !== null && (now >= token.expiresAt || token.rotated?.atOnce === true);
}

/** Of a token's id, the characters of its family, and those that count the rotations; the rest is random. */
const FAMILY = 12;
const COUNT = 6;
const PLACE = FAMILY + COUNT;

/** Generates the id of a new token. Replacements keep its family and count on from it. */
export function newTokenId(): string {
  return withCount(newId(), 0);
}

export function successorIdOf(id: string): string {
  let count = 0;
  for (const digit of id.slice(FAMILY, PLACE)) count = count * BASE62.length + BASE62.indexOf(digit);
  return withCount(id.slice(0, FAMILY) + newId().slice(FAMILY), count + 1);
}

/** Returns the bounds, neither included, of the ids of all tokens that came from a token by rotation. */
export function idsAfter(id: string): readonly [start: string, end: string] {
  // In the order of bytes, `~` comes after all characters of ids.
  return [`${id.slice(0, PLACE)}~`, `${id.slice(0, FAMILY)}~`];
}

/** Returns those ids that come from none of the others by rotation. */
export function outermost(ids: Iterable<string>): string[] {
  const found: string[] = [];
  let [start, end] = ['', ''];
  for (const id of [...new Set(ids)].toSorted((a, b) => (a < b ? -1 : 1))) {
    if (id > start && id < end) continue;
    found.push(id);
    [start, end] = idsAfter(id);
  }
  return found;
}

function withCount(id: string, count: number): string {
  let digits = '';
  for (let rest = count; digits.length < COUNT; rest = Math.floor(rest / BASE62.length))
    digits = BASE62.charAt(rest % BASE62.length) + digits;
  return id.slice(0, FAMILY) + digits + id.slice(PLACE);
}

export interface RotationTerms {
  readonly id: string;
  readonly digest: string;
  /** Milliseconds for which the old token is still accepted; 0 ends it immediately. */
  readonly overlap: number;
  readonly maxLifetime: number | null;
  readonly notAfter: EpochMs | null;
  /** Whether both tokens share a rate bucket, so that a token cannot evade its rate by rotating itself. */
  readonly sharesRate: boolean;
}

/** Both tokens after a rotation, and the old token as it was read. */
export interface Rotation {
  readonly before: Token;
  readonly old: Token;
  readonly replacement: Token;
}

/**
 * Computes the rotation of a token. The replacement has the lifetime that the old token was created with, and
 * all else of it. The old token ends after the overlap, never later than before.
 */
export function rotationOf(before: Token, terms: RotationTerms, now: EpochMs): Rotation {
  const { declared: _, rotated: __, predecessorId: ___, rateId, ...kept } = before;
  const at = wholeSecond(now);
  // Strictly later, so that a concurrent change based on the earlier record is detected.
  const updatedAt = Math.max(at, before.updatedAt + 1);
  return {
    before,
    old: {
      ...before,
      updatedAt,
      expiresAt: Math.min(endOf(now, terms.overlap), before.expiresAt ?? Infinity),
      rotated: { to: terms.id, ...(terms.overlap === 0 ? { atOnce: true as const } : {}) },
    },
    replacement: {
      ...kept,
      id: terms.id,
      digest: terms.digest,
      predecessorId: before.id,
      createdAt: at,
      updatedAt,
      expiresAt: expiryOf(at, lifetimeOf(before), terms),
      ...(terms.sharesRate ? { rateId: rateId ?? before.id } : {}),
    },
  };
}

function lifetimeOf({ expiresAt, createdAt }: Token): number | null {
  return expiresAt === null ? null : expiresAt - createdAt;
}

/** Rounds the end of an overlap up to a whole second. */
function endOf(now: EpochMs, overlap: number): EpochMs {
  return overlap === 0 ? wholeSecond(now) : wholeSecond(now + overlap + 999);
}

function expiryOf(from: EpochMs, lifetime: number | null, { maxLifetime, notAfter }: RotationTerms): EpochMs | null {
  const lasts = Math.min(lifetime ?? Infinity, maxLifetime ?? Infinity);
  const at = Math.min(from + lasts, notAfter ?? Infinity);
  return at === Infinity ? null : wholeSecond(Math.min(at, LAST_TIME));
} // prettier-ignore

export interface Rate {
  readonly count: number;
  readonly per: number;
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const RATE = /^([1-9]\d{0,6})\/([1-9]\d{0,4})([smhd])$/;
/** Maximum count and maximum period of a rate, in requests and milliseconds. */
const MAX_COUNT = 1_000_000;
const MAX_PER = 31 * 86_400_000;

export const RATE_FORM = `like 600/1m: 1 to ${MAX_COUNT} requests in 1s to 31d`;

/** Parses a rate such as `600/1m`; undefined for anything else. */
export function parseRate(text: string): Rate | undefined {
  const [, count, amount, unit] = RATE.exec(text) ?? [];
  if (unit === undefined) return undefined;
  const rate = { count: Number(count), per: Number(amount) * (UNITS[unit] ?? 0) };
  return rate.count <= MAX_COUNT && rate.per <= MAX_PER ? rate : undefined;
}

/** Whether the narrow rate never admits more than the wide one, in a burst or over time. */
export function includesRate(wide: Rate, narrow: Rate): boolean {
  return narrow.count <= wide.count && narrow.count * wide.per <= wide.count * narrow.per;
}

export interface Grant {
  readonly granted: number;
  readonly state: number;
  /** Milliseconds until the next request is allowed; 0 if some were granted. */
  readonly retryAfter: number;
}

/**
 * Takes up to `want` requests from a token bucket (generic cell rate algorithm) of `count` requests, to which
 * one is added every `per / count` milliseconds.
 * @param state when the bucket is full again; 0 for a new one. A time beyond that of an empty bucket (a clock
 *   ran ahead, or the rate changed) counts as empty; the new state is then earlier and must be kept.
 */
export function takeFrom(state: EpochMs, { count, per }: Rate, want: number, now: EpochMs): Grant {
  const step = per / count;
  const full = Math.min(Math.max(state, now), now + per);
  // The added thousandth compensates for the rounding error of the division.
  const free = Math.floor((now + per - full) / step + 0.001);
  const granted = Math.min(want, free);
  if (granted === 0) return { granted, state: full, retryAfter: full + step - (now + per) };
  return { granted, state: full + granted * step, retryAfter: 0 };
}
