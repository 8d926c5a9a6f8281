// src/policy-diff: sample requests for `policy diff`, decided by two configurations.
// May import server and all below.
// `side.ts` is one of the two.

import type { Candidate, LoadedConfig } from '../config/load.js';
import type { Verdict } from '../gate/gate.js';
import type { Match } from '../policy/route.js';
import { type Change, decidingRules, type Finding, type PolicyDiff, Rows } from './report.js';
import { classify, hostsOf, type Matches, type RequestClass, type Variant, variantsOf } from './sample.js';
import { namedService, type Names, NO_CREDENTIAL, type SampleSender, sampleSenders, Side } from './side.js';

export interface ComparedPolicies {
  readonly sides: readonly [Side, Side];
  /** Sample hosts that stand for all. */
  readonly hosts: readonly string[];
  readonly diff: PolicyDiff;
  /** Whether a decision changes on requests of a class, by its key; undefined: no sample is of that class. */
  readonly changes: ReadonlyMap<string, boolean>;
}

export async function diffPolicies(running: LoadedConfig, candidate: Candidate): Promise<ComparedPolicies> {
  const sides = [new Side(running, () => running.file), new Side(candidate.loaded, candidate.fileOf)] as const; // prettier-ignore
  const classes = classify(sides);
  const rows = new Rows(sides);
  const comparison = new Comparison(sides, [running.config.policy, candidate.loaded.config.policy]);
  const changes = new Map<string, boolean>();
  for (const [key, requests] of classes) {
    const found = await comparison.compare(key, requests);
    rows.add(requests, found);
    changes.set(key, found.length > 0);
  }
  const diff = { newly_allowed: rows.of('newly_allowed'), newly_refused: rows.of('newly_refused') };
  return { sides, hosts: [...hostsOf(sides).keys()], diff, changes };
}

type PolicySettings = LoadedConfig['config']['policy'];

class Comparison {
  readonly names: Names;
  readonly #sides: readonly [Side, Side];
  /** Roles and scopes with other rules on the other side. */
  readonly #differing: Record<keyof Names, ReadonlySet<string>>;
  readonly #limitsDiffer: boolean;

  constructor(sides: readonly [Side, Side], [a, b]: readonly [PolicySettings, PolicySettings]) {
    const namesOf = (table: keyof Names) => [...new Set([a, b].flatMap((policy) => Object.keys(policy[table])))];
    this.#sides = sides;
    this.names = { roles: namesOf('roles'), scopes: namesOf('scopes') };
    const differing = (table: keyof Names) =>
      new Set(this.names[table].filter((name) => differ(a[table][name], b[table][name])));
    this.#differing = { roles: differing('roles'), scopes: differing('scopes') };
    this.#limitsDiffer = differ(a.service_limited, b.service_limited);
  } // prettier-ignore

  async compare(key: string, { head, matches }: RequestClass): Promise<Finding[]> {
    const found = new Map<string, Finding>();
    const pairs = matches.some((match) => typeof match !== 'string' && match.route.endpoint?.id != null);
    const [first, second] = key.split('\n');
    const isAffected = first === second ? this.#isAffected : () => true;
    for (const variant of variantsOf(head, matches)) {
      const isAlike = await this.#decide(variant, matches, NO_CREDENTIAL, found);
      if (isAlike || ignoresCredentials(matches)) continue;
      const settings = { customerId: variant.customerId, pairs, isAffected };
      for (const sender of sampleSenders(this.names, servicesOf(variant, matches), settings))
        await this.#decide(variant, matches, sender, found);
    }
    return [...found.values()];
  }

  /** Whether the policies treat a sender differently where both routes are alike. */
  readonly #isAffected = (role: string, scopes: readonly string[]): boolean => {
    const { roles, scopes: differing } = this.#differing;
    return this.#limitsDiffer || roles.has(role) || scopes.some((scope) => differing.has(scope));
  };

  /** Notes a decision that changes. @returns whether it changes for everybody */
  async #decide(
    variant: Variant,
    matches: Matches,
    { sender, role, scope, limit }: SampleSender,
    found: Map<string, Finding>,
  ): Promise<boolean> {
    const context = { ...variant, sender };
    const first = this.#sides[0].evaluate(variant.head, context);
    const a = first instanceof Promise ? await first : first;
    const second = this.#sides[1].evaluate(variant.head, context);
    const b = second instanceof Promise ? await second : second;
    const change = changeOf([a, b]);
    if (change === 'unchanged') return false;
    const rules = rulesOf(this.#sides, matches, [a, b], variant, sender);
    const key = JSON.stringify([change, rules]);
    const isSame = (each: Finding['senders'][number]) =>
      each.role === role && each.scope === scope && each.limit === limit;
    const isForAll = ignoresCredentials(matches) || (change === 'newly_allowed' && isOpen(matches[1]));
    const everybody = role === null && isForAll;
    // Who is affected in any case is not listed again with a condition.
    if (variant.condition !== '' && found.get(key)?.senders.some(isSame) === true) return everybody;
    const findingKey = `${key} ${variant.condition}`.trimEnd();
    const finding = found.get(findingKey) ?? { change, rules, condition: variant.condition, everybody, senders: [] }; // prettier-ignore
    found.set(findingKey, finding);
    finding.everybody ||= everybody;
    finding.senders.push({ role, scope, limit });
    return everybody;
  }
}

export function changeOf([now, then]: readonly [Verdict, Verdict]): Change | 'unchanged' {
  if ((now.refusal === undefined) === (then.refusal === undefined)) return 'unchanged';
  return then.refusal === undefined ? 'newly_allowed' : 'newly_refused';
}

export function rulesOf(
  sides: readonly [Side, Side],
  matches: Matches,
  verdicts: readonly [Verdict, Verdict],
  variant: Variant,
  sender: SampleSender['sender'],
): Finding['rules'] {
  const now = { side: sides[0], match: matches[0], verdict: verdicts[0] };
  const then = { side: sides[1], match: matches[1], verdict: verdicts[1] };
  return decidingRules([now, then], sender, servicesOf(variant, matches));
}

function servicesOf({ head }: Variant, matches: Matches) {
  return [namedService(head, matches[0]), namedService(head, matches[1])] as const;
}

function isOpen(match: Match | string): boolean {
  if (typeof match === 'string') return false;
  return match.route.auth === 'none' || match.route.endpoint?.credential === 'none';
}

function ignoresCredentials(matches: Matches): boolean {
  return matches.every((match) => typeof match === 'string' || match.route.auth !== 'required');
}

function differ(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) !== JSON.stringify(b);
}
