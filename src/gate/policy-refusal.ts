import type { Refusal } from '../domain/refusal.js';
import type { Decision } from '../policy/decide.js';

/** The refusal that a decision of the policy stands for; undefined when it allows. */
export function policyRefusal(decision: Decision, action: string): Refusal | undefined {
  return decision.allowed ? undefined : { refusal: decision.reason, action, detail: decision.detail };
}
