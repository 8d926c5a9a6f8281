import { type LoadedConfig, withShadow } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import type { GateServices } from '../gate/gate.js';
import { ShadowGate } from '../gate/what-if.js';
import { policyVersion } from '../pipeline/auditor.js';
import {
  describeDifferences,
  mergeDifferences,
  Shadow,
  type ShadowDifferenceCounts,
  ShadowDifferences,
} from '../pipeline/shadow.js';
import type { FaultLog } from '../pipeline/faults.js';

/** Null without a shadow policy, or where its rules equal the policy's. */
export function openShadow(
  loaded: LoadedConfig,
  parts: GateServices,
  logFault: FaultLog,
  differences: ShadowDifferences | null,
): Shadow | null {
  const promoted = withShadow(loaded);
  if (promoted === null || differences === null) return null;
  const rules = compilePolicy(promoted.config, promoted.lines);
  return new Shadow(new ShadowGate(parts, rules), differences, logFault);
}

/** @param before the previous counts, which continue while both policies stay the same */
export function shadowDifferencesOf(
  loaded: LoadedConfig,
  before: ShadowDifferences | null,
): ShadowDifferences | null {
  const compared = comparedBy(loaded);
  if (compared === null || compared.policy === compared.shadow) return null;
  const { version } = compared;
  return before?.version === version ? before : new ShadowDifferences(version);
}

export function shadowReport(loaded: LoadedConfig, counts: readonly ShadowDifferenceCounts[]) {
  const compared = comparedBy(loaded);
  if (compared === null) return { policy_shadow: null };
  return {
    policy_shadow: loaded.shadow?.file,
    live_policy: compared.policy,
    shadow_policy: compared.shadow,
    is_same: compared.policy === compared.shadow,
    ...describeDifferences(mergeDifferences(counts, compared.version)),
  };
}

export function sumDifferences(
  loaded: LoadedConfig,
  counts: readonly ShadowDifferenceCounts[],
): ShadowDifferenceCounts[] {
  const compared = comparedBy(loaded);
  return compared === null ? [] : [mergeDifferences(counts, compared.version)];
}

function comparedBy(loaded: LoadedConfig) {
  const promoted = withShadow(loaded);
  if (promoted === null) return null;
  const [policy, shadow] = [policyVersion(loaded.config), policyVersion(promoted.config)];
  return { policy, shadow, version: `${policy} ${shadow}` };
}
