import type { Config } from '../config/schema/config.js';
import type { Token, TokenRestrictions } from '../domain/token.js';
import type { User } from '../domain/user.js';
import type { SimulatedCaller } from '../pipeline/simulate.js';
import type { Rules } from '../policy/patterns.js';
import type { LoadedConfig } from '../config/load.js';
import type { EpochMs } from '../domain/time.js';
import type { Explanation } from '../gate/explain.js';
import type { ConfigPosition } from '../policy/rules.js';

/** The inputs of a decision that can be changed to reverse it. */
export interface Situation {
  readonly config: Config;
  readonly as: SimulatedCaller;
}

/** Returns the user who sends a request; null when unknown. */
export function userOf(as: SimulatedCaller): User | null {
  if (as === 'anonymous') return null;
  if ('subject' in as) return as.subject.user;
  return 'record' in as ? (as.record?.owner ?? null) : null;
}

/** Returns the token of a request, or its equivalent for a JWT; null when there is none. */
export function tokenOf(as: SimulatedCaller): Token | null {
  if (as === 'anonymous') return null;
  if ('subject' in as) return as.subject.credential === 'session' ? null : as.subject.token;
  return 'record' in as ? (as.record?.token ?? null) : null;
}

export function isJwt(as: SimulatedCaller): boolean {
  return as !== 'anonymous' && 'subject' in as && as.subject.credential === 'jwt';
}

export function withUser({ config, as }: Situation, change: (user: User) => User): Situation {
  if (as === 'anonymous') return { config, as };
  if ('subject' in as) return { config, as: { subject: { ...as.subject, user: change(as.subject.user) } } };
  if (!('record' in as) || as.record === undefined) return { config, as };
  return { config, as: { record: { ...as.record, owner: change(as.record.owner) } } };
}

export function withToken({ config, as }: Situation, change: (token: Token) => Token): Situation {
  if (as === 'anonymous') return { config, as };
  if ('subject' in as) {
    const { subject } = as;
    if (subject.credential === 'session') return { config, as };
    return { config, as: { subject: { ...subject, token: change(subject.token) } } };
  }
  if (!('record' in as) || as.record === undefined) return { config, as };
  return { config, as: { record: { ...as.record, token: change(as.record.token) } } };
}

export function withRestrictions(situation: Situation, change: TokenRestrictions): Situation {
  return withToken(situation, (token) => ({ ...token, restrictions: { ...token.restrictions, ...change } }));
}

/** A policy table whose rows are lists of patterns. */
export type RuleTableName = 'roles' | 'scopes';

/** Returns a situation with a changed row in a policy table. */
export function withRow(
  { config, as }: Situation,
  table: RuleTableName,
  name: string,
  change: (row: Rules) => Rules,
): Situation {
  const rows: Readonly<Record<string, Rules>> = config.policy[table];
  const changed = { ...rows, [name]: change(rows[name] ?? {}) };
  return { config: { ...config, policy: { ...config.policy, [table]: changed } }, as };
}

type RouteConfig = Config['routes'][number];

/** Returns a situation with a changed route. @param index null: `default_route` */
export function withRoute(
  { config, as }: Situation,
  index: number | null,
  change: Partial<RouteConfig>,
): Situation {
  if (index === null)
    return { config: { ...config, default_route: { ...config.default_route, ...change } } as Config, as };
  const routes = config.routes.map((route, i) => (i === index ? { ...route, ...change } : route));
  return { config: { ...config, routes }, as };
}

/** Returns a list without the item at an index. */
export function without<T>(list: readonly T[] | undefined, at: number): T[] {
  return (list ?? []).filter((_, i) => i !== at);
}

/** A single change that could reverse a decision. */
export interface Change {
  /** Two changes of the same kind exclude each other, except changes of rules or scopes. */
  readonly kind: 'user' | 'role' | 'credential' | 'scope' | 'services' | 'limits' | 'lifetime' | 'rule' | 'route';
  /** The changed condition in words; changes with the same words are shown in one line. */
  readonly words: string;
  readonly value: string | null;
  /** Position in the configuration; null when the change concerns a record of the store. */
  readonly position: ConfigPosition | null;
  readonly apply: (situation: Situation) => Situation;
} // prettier-ignore

/** The decision that changes are to reverse. */
export interface Decided {
  readonly loaded: LoadedConfig;
  readonly as: SimulatedCaller;
  readonly explanation: Explanation;
  /** The client's address. */
  readonly address: string | null;
  readonly now: EpochMs;
}

export function change(
  kind: Change['kind'],
  words: string,
  value: string | null,
  apply: Change['apply'],
  position: ConfigPosition | null = null,
): Change {
  return { kind, words, value, position, apply };
}
