import type { LoadedConfig } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import { isRead } from '../domain/methods.js';
import { type Gate, whatIfGate } from '../gate/gate.js';
import { Ownership } from '../gate/ownership.js';
import { isRefused, serviceOf } from '../gate/service.js';
import { NO_DEFAULTS, TokenLimits } from '../gate/authenticate.js';
import type { Verdict } from '../gate/verdict.js';
import { authenticatorOf, type Sender, storedToken } from '../gate/what-if.js';
import type { RequestHead } from '../http/head.js';
import type { Policy } from '../policy/decide.js';
import type { Route } from '../policy/route.js';
import type { Match } from '../policy/routes.js';
import type { Sites } from '../policy/sites.js';
import type { TokenWithUse } from '../store/core/token-records.js';
import type { MaybePromise } from '../util/async.js';

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
