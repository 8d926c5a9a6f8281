import { type Sender, syntheticSession, syntheticToken, syntheticUser } from '../gate/what-if.js';

/** Stands for every role, or scope, that neither configuration has. */
export const OTHER = '(any other)';

/** How a token is limited to services, as far as requests can distinguish it. */
export type ServiceLimit =
  | 'none'
  /** Limited to services, and the request names none. */
  | 'any'
  /** Limited to services that include the one in the request. */
  | 'named'
  | 'other'
  /** Each side reads the service from another place, and only one finds a service of the token. */
  | 'named_by_config'
  | 'named_by_against';

export interface SampleSender {
  readonly sender: Sender;
  /** null for no user in particular. */
  readonly role: string | null;
  /** The scopes of a token, separated by spaces; null for a session. */
  readonly scope: string | null;
  readonly limit: ServiceLimit;
}

export interface Names {
  readonly roles: readonly string[];
  readonly scopes: readonly string[];
}

export type NamedServices = readonly [string | null | undefined, string | null | undefined];

export const NO_CREDENTIAL: SampleSender = { sender: 'anonymous', role: null, scope: null, limit: 'none' };

export const OWN_ID = 'somebody';

/**
 * A token with several scopes may do what any of them allows. So one scope is enough where a single
 * action is checked, and two where there are two actions (another user's record).
 */
export function* sampleSenders(
  { roles, scopes }: Names,
  named: NamedServices,
  { customerId, pairs, isAffected }: { customerId: string; pairs: boolean; isAffected: (role: string, scopes: readonly string[]) => boolean },
): Generator<SampleSender> {
  const limits = Object.entries(limitsOf(named)) as [ServiceLimit, string[]][];
  const held = [...scopes, OTHER];
  const lists = held.flatMap((a, i) => (pairs ? held.slice(i).map((b) => (a === b ? [a] : [a, b])) : [[a]]));
  for (const role of [...roles, OTHER]) {
    const user = syntheticUser(role, customerId, OWN_ID);
    if (isAffected(role, [])) yield { sender: syntheticSession(user), role, scope: null, limit: 'none' };
    for (const list of lists)
      if (isAffected(role, list))
        for (const [limit, services] of limits)
          yield { sender: syntheticToken(user, list, services), role, scope: list.join(' '), limit };
  }
} // prettier-ignore

function limitsOf([a, b]: NamedServices): Partial<Record<ServiceLimit, string[]>> {
  const [x, y] = [a ?? b ?? '', b ?? a ?? ''];
  // A service that no sample request names.
  const other = ['any-other-service'];
  if (x === '') return { none: [], any: other };
  const limits = { none: [], other, named: [x, y] };
  return x === y ? limits : { ...limits, named_by_config: [x], named_by_against: [y] };
}
