import type { Caller, Person, Scope, Service, Token } from './api.js';
import {
  DAY,
  describeClient,
  endOfDay,
  expiryState,
  formatDistance,
  nameOf,
  scopeTitles,
  serviceNames,
} from './words.js';

export type SortKey = 'name' | 'owner' | 'created' | 'used' | 'expires';

export interface Sort {
  readonly key: SortKey;
  readonly descending: boolean;
}

export type Show = 'all' | 'active' | 'soon' | 'expired' | 'unused';

export interface Filter {
  readonly text: string;
  readonly show: Show;
}

/** With display texts, computed once for sorting, filtering and rendering. */
export interface Row {
  readonly token: Token;
  readonly name: string;
  /** The owner's tokens with this name. */
  readonly namesakes: number;
  readonly owner: string;
  readonly scope: string;
  readonly services: string;
  /** In lower case, for filters. */
  readonly haystack: string;
}

interface Names {
  readonly people: readonly Person[];
  readonly scopes: readonly Scope[];
  readonly services: readonly Service[];
}

export function toRows(tokens: readonly Token[], { people, scopes, services }: Names): Row[] {
  const owners = new Map(people.map((person) => [person.id, person.name || person.login]));
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(ownName(token), (counts.get(ownName(token)) ?? 0) + 1);
  return tokens.map((token) => {
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

/** Equal rows are sorted newest first. */
export function arrange(
  rows: readonly Row[],
  filter: Filter,
  sort: Sort,
  warnBefore: number,
  now: number,
): Row[] {
  const wanted = filter.text.trim().toLowerCase();
  const sign = sort.descending ? -1 : 1;
  return rows
    .filter((row) => row.haystack.includes(wanted) && isShown(row.token, filter.show, warnBefore, now))
    .toSorted(
      (a, b) =>
        sign * compare(a, b, sort.key) || Date.parse(b.token.created_at) - Date.parse(a.token.created_at),
    );
}

function isShown(token: Token, show: Show, warnBefore: number, now: number): boolean {
  const state = expiryState(token.expires_at, warnBefore, now);
  const shown: Record<Show, boolean> = {
    all: true,
    active: state !== 'past',
    soon: state === 'soon',
    expired: state === 'past',
    unused: token.last_seen_at === null,
  };
  return shown[show];
}

const COLLATOR = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

const TIMES = {
  created: (token: Token) => Date.parse(token.created_at),
  used: (token: Token) => moment(token.last_seen_at, 0),
  expires: (token: Token) => moment(token.expires_at, Number.MAX_SAFE_INTEGER),
};

function compare(a: Row, b: Row, key: SortKey): number {
  if (key === 'name' || key === 'owner') return COLLATOR.compare(a[key], b[key]);
  return TIMES[key](a.token) - TIMES[key](b.token);
}

function moment(time: string | null, otherwise: number): number {
  return time === null ? otherwise : Date.parse(time);
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

/** Most likely no client uses a token any more that was not used for this long. */
const QUIET_MS = 15 * 60_000;

export type RotationState =
  | 'ended'
  | 'never_used'
  /** No client uses the new token yet. */
  | 'not_taken_up'
  | 'both_used'
  /** The new token is in use, and the old one has not been used for a while. */
  | 'quiet';

export function rotationState(old: Token, replacement: Token, now: number): RotationState {
  if (old.expires_at !== null && Date.parse(old.expires_at) <= now) return 'ended';
  if (old.last_seen_at === null) return 'never_used';
  if (replacement.last_seen_at === null) return 'not_taken_up';
  return now - Date.parse(old.last_seen_at) < QUIET_MS ? 'both_used' : 'quiet';
}

export function advice(state: RotationState, { last_seen_at: usedAt, user_agent: client, ip }: Token, now: number): string {
  const use =
    usedAt === null
      ? 'never used'
      : `last used ${formatDistance(Date.parse(usedAt), now)}, by ${describeClient(client)} from ${ip}`;
  switch (state) {
    case 'ended':
      return `The old token has ended. It was ${use}.`;
    case 'never_used':
      return 'The old token was never used.';
    case 'not_taken_up':
      return 'No client has used the new token yet. Give its secret to the clients that use the old one.';
    case 'both_used':
      return `The old token is still in use: ${use}. Give that client the new secret; the old token counts as unused after 15 minutes without a request.`;
    case 'quiet':
      return `The new token is in use, and the old one was ${use}.`;
  }
} // prettier-ignore

/** The replacement gets the lifetime that the old token had. @param maxLifetime seconds; null when unlimited */
export function replacementExpiry(old: Token, now: number, maxLifetime: number | null): number | null {
  const life = moment(old.expires_at, Infinity) - Date.parse(old.created_at);
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
