import type { RequestHead } from '../http/head.js';
import type { Verdict } from '../gate/verdict.js';
import type { Match } from '../policy/routes.js';
import { sampleSenders, type SampleSender, type Names } from './senders.js';
import type { PolicyDiff } from './report.js';
import { classify, hostsOf, type RequestClass } from './requests.js';
import { type Finding, Rows } from './rows.js';
import { decidingRules } from './rules.js';
import { namedService, Side } from './side.js';
import { type Variant, variantsOf } from './variants.js';
import type { Candidate } from '../config/candidate.js';
import type { LoadedConfig } from '../config/load.js';

/** Maximum number of decisions compared, which takes seconds. */
const MAX_DECISIONS = 5_000_000;

/** Limits beyond which the comparison is reported as incomplete. */
export interface Bounds {
  readonly decisions?: number;
  /** Maximum number of kinds of paths. */
  readonly paths?: number;
}

/** The inputs of a comparison. */
interface Compared {
  readonly sides: readonly [Side, Side];
  readonly names: Names;
}

/** The result of a comparison, and the requests that it covers. */
interface Comparison {
  readonly diff: PolicyDiff;
  /**
   * Whether a decision on requests of a class changes, by {@link classKey}; undefined when it was
   * not examined.
   */
  readonly changes: (classKey: string) => boolean | undefined;
}

/** Compares the decisions of two configurations for every request and every sender. */
async function compare(
  compared: Compared,
  onProgress: (done: number, all: number) => void = () => undefined,
  { decisions = MAX_DECISIONS, paths }: Bounds = {},
): Promise<Comparison> {
  const { classes, complete } = classify(compared.sides, paths);
  const incomplete = complete ? [] : ['the routes overlap in too many ways: not every path was compared'];
  const rows = new Rows(compared.sides);
  const changed = new Map<string, boolean>();
  let decided = 0;
  let done = 0;
  for (const [key, each] of classes) {
    if (decided >= decisions) break;
    onProgress(done++, classes.size);
    if (isAlike(compared, key, each)) {
      changed.set(key, false);
      continue;
    }
    const comparison = new ClassComparison(compared, each);
    decided += await comparison.run(decisions - decided);
    if (comparison.finished) changed.set(key, comparison.found.size > 0);
    rows.add(each, comparison.found);
  }
  if (changed.size < classes.size)
    incomplete.push(`${classes.size - changed.size} of ${classes.size} kinds of requests were not compared: too many roles, scopes and routes`); // prettier-ignore
  const pairs = [...classes.values()].reduce((sum, each) => sum + each.pairs.length, 0);
  return {
    diff: {
      newly_allowed: rows.of('newly_allowed'),
      newly_refused: rows.of('newly_refused'),
      incomplete,
      examined: {
        route_pairs: pairs,
        roles: compared.names.roles.length,
        scopes: compared.names.scopes.length,
        judgements: decided,
      },
    },
    changes: (key) => changed.get(key),
  };
}

/** Compares the decisions of both gates on one class of requests, for every sender. */
class ClassComparison {
  readonly found = new Map<string, Finding>();
  finished = false;
  readonly #compared: Compared;
  readonly #class: RequestClass;
  /** Senders affected by an unconditional request, who are not listed again with conditions. */
  readonly #plain = new Set<string>();
  #decided = 0;

  constructor(compared: Compared, requests: RequestClass) {
    this.#compared = compared;
    this.#class = requests;
  }

  /** @param most maximum number of decisions @returns the number of decisions made */
  async run(most: number): Promise<number> {
    const { head, matches } = this.#class;
    const pairs = matches.some((match) => typeof match !== 'string' && match.route.endpoint?.id != null);
    for (const variant of variantsOf(head, matches)) {
      const everybody = await this.#compareDecisions(variant, NO_CREDENTIAL);
      if (everybody || ignoresCredentials(matches)) continue;
      const { customerId } = variant;
      for (const known of sampleSenders(this.#compared.names, this.#named(variant.head), { customerId, pairs })) {
        if (this.#decided >= most) return this.#decided;
        await this.#compareDecisions(variant, known);
      }
    }
    this.finished = true;
    return this.#decided;
  } // prettier-ignore

  #named(head: RequestHead) {
    const [a, b] = this.#class.matches.map((match) => (typeof match === 'string' ? null : namedService(head, match)));
    return [a, b] as const;
  } // prettier-ignore

  /** Decides a request on both sides. @returns whether the decision changes for everybody alike */
  async #compareDecisions(variant: Variant, known: SampleSender): Promise<boolean> {
    this.#decided += 1;
    const { sides } = this.#compared;
    const context = { ...variant, sender: known.sender };
    const first = sides[0].evaluate(variant.head, context);
    const a = first instanceof Promise ? await first : first;
    const second = sides[1].evaluate(variant.head, context);
    const b = second instanceof Promise ? await second : second;
    if ((a.refusal === undefined) === (b.refusal === undefined)) return false;
    return this.#note([a, b], variant, known);
  }

  #note(verdicts: readonly [Verdict, Verdict], variant: Variant, known: SampleSender): boolean {
    const { conditions } = variant;
    const { sides } = this.#compared;
    const { matches } = this.#class;
    const now = { side: sides[0], match: matches[0], verdict: verdicts[0] };
    const then = { side: sides[1], match: matches[1], verdict: verdicts[1] };
    const rules = decidingRules([now, then], known.sender, this.#named(variant.head));
    const change = verdicts[1].refusal === undefined ? 'newly_allowed' : 'newly_refused';
    const isForAll = ignoresCredentials(matches) || (change === 'newly_allowed' && isOpen(matches[1]));
    const everybody = known.role === null && isForAll;
    const key = JSON.stringify([change, rules]);
    const who = `${key} ${known.role} ${known.scope} ${known.limit}`;
    if (conditions.length === 0) this.#plain.add(who);
    else if (this.#plain.has(who)) return everybody;
    let finding = this.found.get(key);
    if (finding === undefined) this.found.set(key, (finding = { change, rules, everybody, senders: [] }));
    finding.everybody ||= everybody;
    finding.senders.push({ role: known.role, scope: known.scope, limit: known.limit, condition: conditions.join(', ') }); // prettier-ignore
    return everybody;
  }
}

const NO_CREDENTIAL: SampleSender = { sender: 'anonymous', role: null, scope: null, limit: 'none' };

/**
 * Whether a class cannot differ.
 *
 * That is so when the gates check the same properties of both routes, and both policies allow every
 * role and scope the same actions that these need.
 */
function isAlike({ sides, names }: Compared, key: string, { matches, head }: RequestClass): boolean {
  const [a, b] = matches;
  const [first, second] = key.split('\n');
  if (first !== second || typeof a === 'string' || typeof b === 'string') return false;
  const { foreignRecordAction = null, scopeAction = null } = a.route.endpoint ?? {};
  const actions = [sides[0].actionOf(a.route, head.method), foreignRecordAction, scopeAction];
  return actions.every((action) => action === null || sides[0].answers(action, names) === sides[1].answers(action, names)); // prettier-ignore
}

/** Whether a route lets everybody through, regardless of the credential. */
function isOpen(match: Match | string): boolean {
  if (typeof match === 'string') return false;
  return match.route.auth === 'none' || match.route.endpoint?.credential === 'none';
}

/** Whether credentials make no difference on either side. */
function ignoresCredentials(matches: readonly (Match | string)[]): boolean {
  return matches.every((match) => typeof match === 'string' || match.route.auth !== 'required');
}

/** The two gates, and the differences between their decisions. */
export interface ComparedPolicies extends Comparison {
  readonly sides: readonly [Side, Side];
  /** Sample hosts that stand for all. */
  readonly hosts: readonly string[];
}

/** Compares the policy of the running configuration with that of a candidate. */
export async function diffPolicies(
  running: LoadedConfig,
  candidate: Candidate,
  onProgress?: (done: number, all: number) => void,
  bounds?: Bounds,
): Promise<ComparedPolicies> {
  const sides = [
    new Side(running, () => running.file),
    new Side(candidate.loaded, candidate.fileOf),
  ] as const;
  const configs = [running.config, candidate.loaded.config];
  const names = (table: 'roles' | 'scopes') => [...new Set(configs.flatMap(({ policy }) => Object.keys(policy[table])))]; // prettier-ignore
  const compared = { sides, names: { roles: names('roles'), scopes: names('scopes') } };
  return { sides, hosts: [...hostsOf(sides).keys()], ...(await compare(compared, onProgress, bounds)) };
}
