import type { Subject } from '../domain/credential.js';
import { type Counted, Frequent, mergeFrequent } from '../util/collections.js';
import { maskedStart, ownCopy, printable } from '../util/text.js';
import { type EpochMs, formatTime } from '../util/time.js';
import type { Verdict } from '../gate/gate.js';
import type { RequestHead } from '../http/head.js';
import { type Change, countShadowDecision } from '../observe/metrics/requests.js';
import type { Route } from '../policy/route.js';
import { describePosition } from '../policy/decide.js';
import { isUnknown, type ShadowGate } from '../gate/what-if.js';
import type { FaultLog } from './faults.js';

const MAX_DIFFERENCES = 1_000;

/** Maximum length of text from a client or another issuer. */
const MAX_TEXT = 200;

export interface PolicyOutcome {
  readonly outcome: string;
  readonly route: string | null;
  readonly action: string | null;
  /** The deciding rule, or the route where no rule decided; null when neither did. */
  readonly rule: string | null;
}

interface Caller {
  readonly credential: Subject['credential'] | null;
  readonly token_id: string | null;
  /** For a JWT: the name of its issuer, and its `sub` claim. */
  readonly issuer?: string;
  readonly subject?: string;
  readonly user_id: string | null;
  readonly customer_id: string | null;
}

export interface ShadowDifference extends Caller {
  readonly change: Change;
  readonly live: PolicyOutcome;
  readonly shadow: PolicyOutcome;
  /** The last one sent; null when none was. */
  user_agent: string | null;
  lastAt: EpochMs;
}

export interface ShadowDifferenceCounts {
  readonly version: string;
  readonly since: EpochMs;
  readonly compared: number;
  readonly notCompared: number;
  readonly changes: Readonly<Record<Change, number>>;
  readonly list: readonly Counted<ShadowDifference>[];
}

export class ShadowDifferences {
  readonly version: string;
  readonly #since = Date.now();
  readonly #list = new Frequent<ShadowDifference>(MAX_DIFFERENCES);
  readonly #changes = { would_refuse: 0, would_allow: 0 };
  compared = 0;
  notCompared = 0;

  constructor(version: string) {
    this.version = version;
  }

  note(change: Change, head: RequestHead, live: Verdict, shadow: Verdict): void {
    this.#changes[change] += 1;
    const subject = live.subject ?? shadow.subject;
    const key = `${change}\n${keyOfOutcome(live)}\n${keyOfOutcome(shadow)}\n${keyOfCaller(subject)}`;
    const known = this.#list.get(key);
    const { userAgent } = head;
    // It is made printable only when it is read.
    const user_agent = userAgent === undefined ? null : ownCopy(userAgent.slice(0, 2 * MAX_TEXT));
    const lastAt = Date.now();
    if (known !== undefined) {
      known.value.user_agent = user_agent ?? known.value.user_agent;
      known.value.lastAt = lastAt;
      known.count += 1;
      return;
    }
    const [liveSide, shadowSide] = [outcomeOf(live), outcomeOf(shadow)];
    this.#list.add(key, { change, ...callerOf(subject), live: liveSide, shadow: shadowSide, user_agent, lastAt });
  } // prettier-ignore

  counts(): ShadowDifferenceCounts {
    const list = this.#list.list().map(({ value, ...rest }) => ({
      ...rest,
      value: { ...value, user_agent: shown(value.user_agent ?? undefined) },
    }));
    return {
      version: this.version,
      since: this.#since,
      compared: this.compared,
      notCompared: this.notCompared,
      changes: { ...this.#changes },
      list,
    };
  }
}

/** Merges the differences of several processes. Those of another version are left out. */
export function mergeDifferences(
  counts: readonly ShadowDifferenceCounts[],
  version: string,
): ShadowDifferenceCounts {
  const same = counts.filter((each) => each.version === version);
  const sum = (numberOf: (counts: ShadowDifferenceCounts) => number) =>
    same.reduce((total, each) => total + numberOf(each), 0);
  return {
    version,
    since: Math.min(Date.now(), ...same.map(({ since }) => since)),
    compared: sum(({ compared }) => compared),
    notCompared: sum(({ notCompared }) => notCompared),
    changes: {
      would_refuse: sum(({ changes }) => changes.would_refuse),
      would_allow: sum(({ changes }) => changes.would_allow),
    },
    list: mergeFrequent(
      same.flatMap(({ list }) => list),
      MAX_DIFFERENCES,
      (a, b) => (a.lastAt > b.lastAt ? a : b),
    ),
  };
}

/** Most frequent first, of equal ones the latest, whichever process counted them. */
export function describeDifferences({ since, compared, notCompared, changes, list }: ShadowDifferenceCounts) {
  return {
    since: formatTime(since),
    requests: { compared, not_compared: notCompared, ...changes },
    casualties: list
      .toSorted((a, b) => b.count - a.count || b.value.lastAt - a.value.lastAt || (a.key < b.key ? -1 : 1))
      .map(({ value: { lastAt, user_agent, ...value }, count }) => ({
        ...value,
        count,
        user_agent,
        last_at: formatTime(lastAt),
      })),
  };
}

function routeLabel(route: Route | null): string | null {
  return route === null ? null : (route.endpoint?.name ?? route.path);
}

function outcomeOf(verdict: Verdict): PolicyOutcome {
  const { route, action, refusal } = verdict;
  const position = positionOf(verdict);
  return {
    outcome: refusal?.refusal ?? 'allowed',
    route: routeLabel(route),
    action,
    rule: position === null ? null : describePosition(position),
  };
}

/** Made for each difference, unlike what is shown of it. */
function keyOfOutcome(verdict: Verdict): string {
  const { route, action, refusal } = verdict;
  return `${refusal?.refusal ?? ''}\n${routeLabel(route) ?? ''}\n${action ?? ''}\n${positionOf(verdict)?.path ?? ''}`;
}

function positionOf({ decision, route }: Verdict) {
  return decision === null ? (route?.position ?? null) : (decision.rule?.position ?? null);
}

function callerOf(subject: Subject | null): Caller {
  if (subject === null) return { credential: null, token_id: null, user_id: null, customer_id: null };
  const { credential, user } = subject;
  const owner = { user_id: shown(user.id), customer_id: shown(user.customerId) };
  if (credential === 'session') return { credential, token_id: null, ...owner };
  if (credential !== 'jwt') return { credential, token_id: subject.token.id, ...owner };
  const { issuer, subject: claimed } = subject.jwt;
  return { credential, token_id: null, issuer, subject: shown(claimed) ?? '', ...owner };
}

function keyOfCaller(subject: Subject | null): string {
  if (subject === null) return '';
  switch (subject.credential) {
    case 'session':
      return `session ${subject.user.id}`;
    case 'jwt':
      return `jwt ${subject.jwt.issuer} ${subject.jwt.subject.slice(0, MAX_TEXT)} ${subject.user.id}`;
    default:
      return `token ${subject.token.id}`;
  }
}

/** Text from outside, truncated, with tokens masked and control characters escaped. */
function shown(text: string | undefined): string | null {
  return text === undefined ? null : printable(maskedStart(text, MAX_TEXT));
}

/** Maximum look-ups in progress for the shadow policy. Requests do not wait for them. */
const MAX_PENDING = 100;

/**
 * The shadow policy (`policy_shadow`). Differences are recorded and have no other effect; faults are only
 * logged.
 */
export class Shadow {
  readonly differences: ShadowDifferences;
  readonly #gate: Pick<ShadowGate, 'evaluate'>;
  readonly #logFault: FaultLog;
  #pending = 0;

  constructor(gate: Pick<ShadowGate, 'evaluate'>, differences: ShadowDifferences, logFault: FaultLog) {
    this.#gate = gate;
    this.differences = differences;
    this.#logFault = logFault;
  }

  compare(head: RequestHead, live: Verdict, requestId: string): void {
    try {
      const verdict = this.#gate.evaluate(head, live, this.#pending < MAX_PENDING);
      if (verdict instanceof Promise) this.#wait(head, live, verdict, requestId);
      else this.#compare(head, live, verdict);
    } catch (error) {
      this.#fault(error, requestId);
    }
  }

  /** Only needed where the shadow policy looks up something that the gate did not. */
  #wait(head: RequestHead, live: Verdict, pending: Promise<Verdict>, requestId: string): void {
    this.#pending += 1;
    pending
      .then((verdict) => this.#compare(head, live, verdict))
      .catch((error: unknown) => this.#fault(error, requestId))
      .finally(() => {
        this.#pending -= 1;
      });
  }

  #compare(head: RequestHead, live: Verdict, shadow: Verdict): void {
    const { differences } = this;
    if (isUnknown(shadow)) {
      differences.notCompared += 1;
      return;
    }
    differences.compared += 1;
    const isRefused = shadow.refusal !== undefined;
    if (isRefused === (live.refusal !== undefined)) return;
    // The shadow policy does not count writes. A user without remaining writes has none by any policy.
    if (live.refusal?.refusal === 'rate_limited' && shadow.subject !== null) return;
    const change = isRefused ? 'would_refuse' : 'would_allow';
    countShadowDecision(routeLabel(live.route) ?? 'none', change);
    differences.note(change, head, live, shadow);
  }

  #fault(error: unknown, requestId: string): void {
    this.differences.notCompared += 1;
    this.#logFault(error, 'shadow policy check failed; request served without it', requestId);
  }
}
