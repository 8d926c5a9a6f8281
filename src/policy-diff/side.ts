import type { LoadedConfig } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import { isRead } from '../domain/methods.js';
import { type Gate, type Verdict, whatIfGate } from '../gate/gate.js';
import { Ownership } from '../gate/ownership.js';
import { isRefused, serviceOf } from '../gate/request-rules.js';
import { NO_DEFAULTS, TokenLimits } from '../gate/authenticate.js';
import {
  authenticatorOf,
  type Sender,
  storedToken,
  syntheticSession,
  syntheticToken,
  syntheticUser,
} from '../gate/what-if.js';
import type { RequestHead } from '../http/head.js';
import type { Policy } from '../policy/decide.js';
import type { Match, Route } from '../policy/route.js';
import type { Sites } from '../policy/sites.js';
import type { TokenWithUse } from '../store/core/token-records.js';
import type { MaybePromise } from '../util/async.js';

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

export interface EvaluationContext {
  readonly sender: Sender;
  readonly tokenOf: (id: string) => TokenWithUse;
}

export class Side {
  readonly policy: Policy;
  readonly sites: Sites;
  readonly #gate: Gate;
  readonly #file: (key: string) => string;
  readonly #signatures = new Map<Route, [reading?: string, writing?: string]>();
  #context: EvaluationContext = {
    sender: 'anonymous',
    tokenOf: (id) => ({ token: storedToken(id, ''), use: null }),
  };

  /** @param fileOf returns the file that holds a top-level key of the configuration */
  constructor(loaded: LoadedConfig, fileOf: (key: string) => string) {
    const { sites, policy } = compilePolicy(loaded.config, loaded.lines);
    this.policy = policy;
    this.sites = sites;
    this.#file = fileOf;
    this.#gate = whatIfGate({
      sites,
      policy,
      authenticator: {
        isSent: (head) => authenticatorOf(this.#context.sender).isSent(head),
        authenticate: (head, now) => authenticatorOf(this.#context.sender).authenticate(head, now),
      },
      ownership: new Ownership({ trace: async (id) => this.#context.tokenOf(id) }, policy),
      tokenLimits: new TokenLimits(NO_DEFAULTS, null),
      tokens: { hasActive: async () => false },
    });
  }

  /** Returns the file of a position, given as keys from the root, joined by dots. */
  fileOf(path: string): string {
    return this.#file(path.split('.', 1)[0] ?? '');
  }

  evaluate(head: RequestHead, context: EvaluationContext): MaybePromise<Verdict> {
    this.#context = context;
    return this.#gate.evaluate(head, 0);
  }

  match(head: RequestHead): Match | string {
    return this.sites.find(head);
  }

  /** Returns what the gate considers of a route; requests with equal signatures are decided alike. */
  signature(route: Route, method: string): string {
    const known = this.#signatures.get(route) ?? [];
    this.#signatures.set(route, known);
    const { auth, service, endpoint } = route;
    const reads = isRead(method);
    return (known[Number(reads)] ??= JSON.stringify([reads, auth, this.actionOf(route, method), service, endpoint]));
  } // prettier-ignore

  actionOf({ readAction, writeAction }: Route, method: string): string | null {
    return isRead(method) ? readAction : writeAction;
  }
}

/** Returns the service that a request names; null where none counts, undefined if it is unclear. */
export function namedService(head: RequestHead, match: Match | string): string | null | undefined {
  if (typeof match === 'string') return null;
  const named = serviceOf(head, match);
  return isRefused(named) ? undefined : named;
}
