import type { LoadedConfig } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import { isRead } from '../domain/methods.js';
import type { MaybePromise } from '../domain/maybe-promise.js';
import { Gate, type GateServices } from '../gate/gate.js';
import type { Verdict } from '../gate/verdict.js';
import { Ownership } from '../gate/ownership.js';
import { isRefused, serviceOf } from '../gate/service.js';
import { NO_DEFAULTS, TokenLimits } from '../gate/token-limits.js';
import type { RequestHead } from '../http/head.js';
import type { TokenWithUse } from '../store/token-store.js';
import type { Policy } from '../policy/decide.js';
import type { Route } from '../policy/route.js';
import type { Match } from '../policy/routes.js';
import type { Sites } from '../policy/sites.js';
import { type Sender, type Names, OTHER, sessionOf, tokenOf, userOf } from './senders.js';

/** What a verdict depends on besides the request: the sender, and the content of the store. */
export interface EvaluationContext {
  readonly sender: Sender;
  /** Whether a user has active tokens. */
  readonly hasActiveTokens: (userId: string) => boolean;
  /** Returns the token with an id from a path; undefined when there is none. */
  readonly tokenOf: (id: string) => TokenWithUse | undefined;
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
    this.#gate = new Gate(this.#parts());
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
  match({ client, method, path, readings }: RequestHead): Match | string {
    return this.sites.routerOf(client.host).find(method, path, readings);
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
      const byRole = [...roles, OTHER].map((role) => this.policy.explainChecks(sessionOf(userOf(role, '')), action, null));
      const byScope = [...scopes, OTHER].map((scope) => {
        const token = tokenOf('', '', [scope], ['service']);
        return this.policy.explainChecks({ credential: 'token', user: userOf('', ''), token }, action, null).slice(0, -1);
      });
      known = JSON.stringify([...byRole, ...byScope].map((checks) => checks.map(({ allowed }) => Number(allowed))));
      this.#answers.set(action, known);
    }
    return known;
  } // prettier-ignore

  #parts(): GateServices {
    return {
      sites: this.sites,
      policy: this.policy,
      authenticator: {
        isSent: () => this.#context.sender !== 'anonymous',
        authenticate: () =>
          typeof this.#context.sender === 'string' ? { refusal: 'unauthenticated' } : this.#context.sender,
      },
      ownership: new Ownership({ trace: async (id) => this.#context.tokenOf(id) }, this.policy),
      tokenLimits: new TokenLimits(NO_DEFAULTS, null),
      lastSeen: { note: () => undefined },
      tokens: { hasActive: async (userId) => this.#context.hasActiveTokens(userId) },
      writeLimit: null,
    };
  }
}

const NOTHING: EvaluationContext = {
  sender: 'anonymous',
  hasActiveTokens: () => false,
  tokenOf: () => undefined,
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
  'path',
  'methods',
  'position',
  'upstream',
  'strippedSegments',
  'wildcard',
  'cors',
  'sendsToLogin',
]);

const OF_WRITES: ReadonlySet<keyof Route> = new Set([...IGNORED_BY_GATE, 'readAction', 'allowsBodyOnRead']);
const OF_READS: ReadonlySet<keyof Route> = new Set([...IGNORED_BY_GATE, 'writeAction']);

function signatureOf(route: Route, reads: boolean): string {
  return JSON.stringify([reads, withoutMembers(route, reads ? OF_READS : OF_WRITES)]);
}

/** Returns the members of a route except some, in a fixed order. */
export function withoutMembers(route: Route, left: ReadonlySet<keyof Route>): unknown {
  return Object.entries(route).filter(([name]) => !left.has(name as keyof Route));
}
