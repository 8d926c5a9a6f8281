import { expiryState } from './times.js';
import type { Person, Scope, Service, Token } from './types.js';
import { nameOf, scopeTitles, serviceNames } from './words.js';

/** Columns by which a list of tokens can be sorted. */
export type SortKey = 'name' | 'owner' | 'created' | 'used' | 'expires';

export interface Sort {
  readonly key: SortKey;
  readonly descending: boolean;
}

/** Filters a list by the state of its tokens. */
export type Show = 'all' | 'active' | 'soon' | 'expired' | 'unused';

export interface Filter {
  readonly text: string;
  readonly show: Show;
}

/** A token with its display texts, computed once for sorting, filtering and rendering. */
export interface Row {
  readonly token: Token;
  readonly name: string;
  /** Number of the owner's tokens with the same name, including this one. */
  readonly namesakes: number;
  readonly owner: string;
  readonly scope: string;
  readonly services: string;
  /** The text that filters search, in lower case. */
  readonly haystack: string;
}

export interface Names {
  readonly people: readonly Person[];
  readonly scopes: readonly Scope[];
  readonly services: readonly Service[];
}

/** Computes the display texts of tokens. */
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

/**
 * Filters and sorts rows. Equal rows are sorted newest first.
 *
 * @param warnBefore as for `expiryState`
 */
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
  switch (show) {
    case 'all':
      return true;
    case 'active':
      return state !== 'past';
    case 'soon':
      return state === 'soon';
    case 'expired':
      return state === 'past';
    case 'unused':
      return token.last_seen_at === null;
  }
}

const COLLATOR = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

function compare(a: Row, b: Row, key: SortKey): number {
  switch (key) {
    case 'name':
      return COLLATOR.compare(a.name, b.name);
    case 'owner':
      return COLLATOR.compare(a.owner, b.owner);
    case 'created':
      return Date.parse(a.token.created_at) - Date.parse(b.token.created_at);
    case 'used':
      return moment(a.token.last_seen_at, 0) - moment(b.token.last_seen_at, 0);
    case 'expires':
      return moment(a.token.expires_at, Number.MAX_SAFE_INTEGER) - moment(b.token.expires_at, Number.MAX_SAFE_INTEGER);
  }
} // prettier-ignore

function moment(time: string | null, otherwise: number): number {
  return time === null ? otherwise : Date.parse(time);
}
