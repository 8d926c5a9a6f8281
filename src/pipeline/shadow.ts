import type { Verdict } from '../gate/verdict.js';
import { isUnknown, type ShadowGate } from '../gate/shadow-gate.js';
import type { RequestHead } from '../http/head.js';
import { countShadowDecision } from '../observe/metrics/requests.js';
import { type ShadowDifferences, routeLabel } from './shadow-differences.js';
import type { FaultLog } from './faults.js';

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
      differences.notCompared();
      return;
    }
    differences.compared();
    const isRefused = shadow.refusal !== undefined;
    if (isRefused === (live.refusal !== undefined)) return;
    // The shadow policy does not count writes. A user without remaining writes has none by any policy.
    if (live.refusal?.refusal === 'rate_limited' && shadow.subject !== null) return;
    const change = isRefused ? 'would_refuse' : 'would_allow';
    countShadowDecision(routeLabel(live.route) ?? 'none', change);
    differences.note(change, head, live, shadow);
  }

  #fault(error: unknown, requestId: string): void {
    this.differences.notCompared();
    this.#logFault(error, 'shadow policy check failed; request served without it', requestId);
  }
}
