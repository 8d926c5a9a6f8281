import type { Caller, Person, Scope, Service, Token } from './api.js';
import { DAY, endOfDay, nameOf, scopeTitles, serviceNames } from './words.js';

/** With display texts, computed once for filtering and rendering. */
export interface Row {
  readonly token: Token;
  readonly name: string;
  /** The owner's tokens with this name. */
  readonly namesakes: number;
  readonly owner: string;
  readonly scope: string;
  readonly services: string;
  /** In lower case, for the filter. */
  readonly haystack: string;
}

interface Names {
  readonly people: readonly Person[];
  readonly scopes: readonly Scope[];
  readonly services: readonly Service[];
}

/** The newest first. @param tokens the oldest first, as the server lists them */
export function toRows(tokens: readonly Token[], { people, scopes, services }: Names): Row[] {
  const owners = new Map(people.map((person) => [person.id, person.name || person.login]));
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(ownName(token), (counts.get(ownName(token)) ?? 0) + 1);
  return tokens.toReversed().map((token) => {
    const row = {
      token,
      name: nameOf(token),
      namesakes: counts.get(ownName(token)) ?? 1,
      owner: owners.get(token.user_id) ?? token.user_id,
      scope: scopeTitles(token.scopes, scopes),
      services: serviceNames(token.services, services),
    };
    const words = [row.name, row.owner, row.scope, row.services, token.id, token.user_agent, token.ip, ...token.scopes];
    return { ...row, haystack: words.join('\n').toLowerCase() };
  });
} // prettier-ignore

function ownName({ user_id: owner, name }: Token): string {
  return `${owner}\n${name}`;
}

const DAYS = [7, 30, 90, 365];
const DEFAULT_DAYS = 90;

/** @param maxLifetime seconds; null when unlimited */
export function expiryPresets(maxLifetime: number | null): (readonly [value: string, label: string])[] {
  const fit = DAYS.filter((days) => maxLifetime === null || days * DAY <= maxLifetime * 1000);
  return [
    ...fit.map((days) => [String(days), days === 365 ? '1 year' : `${days} days`] as const),
    ['date', 'On a date…'],
    ['longest', maxLifetime === null ? 'Never' : 'Longest allowed'],
  ];
}

export function firstPreset(maxLifetime: number | null): string {
  const isAllowed = expiryPresets(maxLifetime).some(([value]) => value === String(DEFAULT_DAYS));
  return isAllowed ? String(DEFAULT_DAYS) : 'longest';
}

/** Null: none is sent, so that the token lasts as long as allowed. NaN: the day is invalid or has passed. */
export function expiryOf(preset: string, day: string, now: number): number | null {
  if (preset === 'longest') return null;
  if (preset !== 'date') return now + Number(preset) * DAY;
  const at = endOfDay(day);
  return at > now ? at : Number.NaN;
}

export function toExpiresAt(at: number | null): string | null {
  return at === null ? null : `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** The replacement gets the lifetime that the old token had. @param maxLifetime seconds; null when unlimited */
export function replacementExpiry(old: Token, now: number, maxLifetime: number | null): number | null {
  const life = old.expires_at === null ? Infinity : Date.parse(old.expires_at) - Date.parse(old.created_at);
  const lasts = Math.min(life, maxLifetime === null ? Infinity : maxLifetime * 1000);
  return lasts === Infinity ? null : now + lasts;
}

const OVERLAPS = [0, 3_600, 86_400, 7 * 86_400];
const UNITS = { day: 86_400, hour: 3_600, second: 1 };

/** In seconds, with their labels. @param usual the server's default */
export function overlapChoices({ overlap: usual, max_overlap: longest }: Caller['rotation']) {
  const fit = OVERLAPS.filter((seconds) => seconds <= longest);
  const all = [...new Set([...fit, usual])].toSorted((a, b) => a - b);
  return all.map((seconds) => [String(seconds), labelOf(seconds)] as const);
}

function labelOf(seconds: number): string {
  if (seconds === 0) return 'At once';
  const [unit, size] = Object.entries(UNITS).find(([, each]) => seconds % each === 0) ?? ['second', 1];
  const count = seconds / size;
  return `In ${count} ${unit}${count === 1 ? '' : 's'}`;
}
