import type { LoadedConfig } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import { isRead } from '../domain/methods.js';
import type { MaybePromise } from '../util/async.js';
import { type Gate, whatIfGate } from '../gate/gate.js';
import type { Verdict } from '../gate/verdict.js';
import { Ownership } from '../gate/ownership.js';
import { isRefused, serviceOf } from '../gate/service.js';
import { NO_DEFAULTS, TokenLimits } from '../gate/token-limits.js';
import {
  authenticatorOf,
  type Sender,
  storedToken,
  syntheticSession,
  syntheticToken,
  syntheticUser,
} from '../gate/what-if.js';
import type { RequestHead } from '../http/head.js';
import type { TokenWithUse } from '../store/token-store.js';
import type { Policy } from '../policy/decide.js';
import type { Route } from '../policy/route.js';
import type { Match } from '../policy/routes.js';
import type { Sites } from '../policy/sites.js';
import { type Names, OTHER } from './senders.js';

/** What a verdict depends on besides the request: the sender, and the content of the store. */
export interface EvaluationContext {
  readonly sender: Sender;
  /** Returns the token with an id from a path. */
  readonly tokenOf: (id: string) => TokenWithUse;
}

/**
 * One of the two compared configurations, with its gate. Nothing is counted, recorded or forwarded.
 */
export class Side {
  readonly policy: Policy;
  readonly sites: Sites;
  readonly #gate: Gate;
  readonly #file: (key: string) => string;
  readonly #signatures = new WeakMap<Route, readonly [reading: string, writing: string]>();
  readonly #answers = new Map<string, string>();
  #context: EvaluationContext = NOTHING;

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

  /** Returns the gate's verdict on a request under some circumstances. */
  evaluate(head: RequestHead, context: EvaluationContext): MaybePromise<Verdict> {
    this.#context = context;
    return this.#gate.evaluate(head, 0);
  }

  /** Returns the route of a request, or why its path is refused. */
  match(head: RequestHead): Match | string {
    return this.sites.find(head);
  }

  /**
   * Returns everything that the gate considers of a route.
   *
   * Requests of one method whose routes have equal signatures are decided alike.
   */
  signature(route: Route, method: string): string {
    let known = this.#signatures.get(route);
    if (known === undefined) this.#signatures.set(route, (known = [signatureOf(route, true), signatureOf(route, false)]));
    return known[isRead(method) ? 0 : 1];
  } // prettier-ignore

  /** Returns the action that a method requires on a route. */
  actionOf({ readAction, writeAction }: Route, method: string): string | null {
    return isRead(method) ? readAction : writeAction;
  }

  /**
   * Returns a string that encodes whether each role, each scope and the service limit allow an
   * action.
   */
  answers(action: string, { roles, scopes }: Names): string {
    let known = this.#answers.get(action);
    if (known === undefined) {
      const byRole = [...roles, OTHER].map((role) => this.policy.explainChecks(syntheticSession(syntheticUser(role, '')), action, null));
      const byScope = [...scopes, OTHER].map((scope) => {
        const holder = syntheticToken(syntheticUser('', ''), [scope], ['service']);
        return this.policy.explainChecks(holder, action, null).slice(0, -1);
      });
      known = JSON.stringify([...byRole, ...byScope].map((checks) => checks.map(({ allowed }) => Number(allowed))));
      this.#answers.set(action, known);
    }
    return known;
  } // prettier-ignore
}

const NOTHING: EvaluationContext = {
  sender: 'anonymous',
  tokenOf: (id) => ({ token: storedToken(id, ''), use: null }),
};

/**
 * Returns the service that a request names.
 *
 * It is null when the route has none, and undefined when the request names none or is ambiguous.
 */
export function namedService(head: RequestHead, match: Match): string | null | undefined {
  const named = serviceOf(head, match);
  return isRefused(named) ? undefined : named;
}

/** Properties of a route that the gate ignores; all others count. */
const IGNORED_BY_GATE: ReadonlySet<keyof Route> = new Set([
  'host',
  'path',
  'name',
  'methods',
  'position',
  'upstream',
  'strippedSegments',
  'strippedPrefix',
  'limits',
  'wildcard',
  'cors',
  'loginPath',
  'allowsServiceWorker',
  'allowsBodyOnRead',
  'refuseIfActiveTokens',
]);

const OF_WRITES: ReadonlySet<keyof Route> = new Set([...IGNORED_BY_GATE, 'readAction']);
const OF_READS: ReadonlySet<keyof Route> = new Set([...IGNORED_BY_GATE, 'writeAction']);

function signatureOf(route: Route, reads: boolean): string {
  return JSON.stringify([reads, withoutMembers(route, reads ? OF_READS : OF_WRITES)]);
}

/** Returns the members of a route except some, in a fixed order. */
function withoutMembers(route: Route, left: ReadonlySet<keyof Route>): unknown {
  return Object.entries(route).filter(([name]) => !left.has(name as keyof Route));
}
