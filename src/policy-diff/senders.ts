import { type Sender, syntheticSession, syntheticToken, syntheticUser } from '../gate/what-if.js';

/** Stands for every role, or scope, that neither configuration has. */
export const OTHER = '(any other)';

/** How a token is limited to services, as far as requests can distinguish it. */
export type ServiceLimit =
  /** Not limited. */
  | 'none'
  /** Limited to services, and the request names none. */
  | 'any'
  /** Limited to services that include the one in the request. */
  | 'named'
  | 'other'
  /**
   * The two sides read the service from different parts of the request, and only one of them finds
   * a service of the token.
   */
  | 'named_by_config'
  | 'named_by_against';

/** A sender who stands for all those that both gates treat alike, and a description. */
export interface SampleSender {
  readonly sender: Sender;
  /** null for no user in particular. */
  readonly role: string | null;
  /** The scopes of a token, separated by spaces; null for a session. */
  readonly scope: string | null;
  readonly limit: ServiceLimit;
}

/** Names of roles and scopes that either policy has. */
export interface Names {
  readonly roles: readonly string[];
  readonly scopes: readonly string[];
}

/** Id of the synthetic user. */
export const OWN_ID = 'somebody';

/**
 * Yields every kind of subject, by role, scope and services.
 *
 * A token with several scopes may do what any one of them allows. So where a single action is
 * checked, its decision changes only if that of a token with one of its scopes changes. Where two
 * actions are checked (another user's record), pairs of scopes are enough.
 *
 * @param named the service that each side finds in the request
 */
export function* sampleSenders(
  { roles, scopes }: Names,
  named: readonly [string | null | undefined, string | null | undefined],
  { customerId, pairs }: { customerId: string; pairs: boolean },
): Generator<SampleSender> {
  const limits = limitsOf(named);
  const held = [...scopes, OTHER];
  const lists = pairs ? held.flatMap((a, i) => held.slice(i).map((b) => (a === b ? [a] : [a, b]))) : held.map((name) => [name]); // prettier-ignore
  for (const role of [...roles, OTHER]) {
    const user = syntheticUser(role, customerId);
    yield { sender: syntheticSession(user), role, scope: null, limit: 'none' };
    for (const list of lists)
      for (const { limit, services } of limits)
        yield { sender: syntheticToken(user, list, services), role, scope: list.join(' '), limit };
  }
}

function limitsOf([a, b]: readonly [string | null | undefined, string | null | undefined]) {
  const limits: { limit: ServiceLimit; services: string[] }[] = [{ limit: 'none', services: [] }];
  const [x, y] = [a ?? undefined, b ?? undefined];
  // A service that no sample request names.
  const other = ['any-other-service'];
  if (x === undefined && y === undefined) return [...limits, { limit: 'any' as const, services: other }];
  limits.push({ limit: 'other', services: other });
  if (x === undefined || y === undefined || x === y)
    return [...limits, { limit: 'named' as const, services: [x ?? y ?? ''] }];
  return [
    ...limits,
    { limit: 'named' as const, services: [x, y] },
    { limit: 'named_by_config' as const, services: [x] },
    { limit: 'named_by_against' as const, services: [y] },
  ];
}
