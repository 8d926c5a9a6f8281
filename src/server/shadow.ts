import type { LoadedConfig } from '../config/load.js';
import { compilePolicy } from '../config/policy.js';
import { withShadow } from '../config/shadow.js';
import type { GateServices } from '../gate/gate.js';
import { ShadowGate } from '../gate/shadow-gate.js';
import { policyVersion } from '../pipeline/auditor.js';
import {
  Casualties,
  type CasualtyCounts,
  describeCasualties,
  mergeCasualties,
} from '../pipeline/casualties.js';
import { Shadow } from '../pipeline/shadow.js';
import type { FaultLog } from '../pipeline/faults.js';

/** The policy of a configuration and its shadow policy, by the digests of their rules. */
interface Compared {
  readonly policy: string;
  readonly shadow: string;
}

/** Makes the shadow policy of a configuration; null without one, and where its rules are those of the policy. */
export function openShadow(
  loaded: LoadedConfig,
  parts: GateServices,
  logFault: FaultLog,
  casualties: Casualties | null,
): Shadow | null {
  const promoted = withShadow(loaded);
  if (promoted === null || casualties === null) return null;
  const rules = compilePolicy(promoted.config, promoted.lines);
  return new Shadow(new ShadowGate(parts, rules), casualties, logFault);
}

/**
 * Where the casualties of a configuration are counted; null when it has no shadow policy, or one that decides nothing otherwise.
 *
 * @param before where they were counted until now: they go on while both policies stay the same
 */
export function casualtiesOf(loaded: LoadedConfig, before: Casualties | null): Casualties | null {
  const compared = comparedBy(loaded);
  if (compared === null || compared.policy === compared.shadow) return null;
  const version = versionOf(compared);
  return before?.version === version ? before : new Casualties(version);
}

/** What `GET /-/shadow` answers. */
export function shadowReport(loaded: LoadedConfig, counts: readonly CasualtyCounts[]) {
  const compared = comparedBy(loaded);
  if (compared === null) return { policy_shadow: null };
  return {
    policy_shadow: loaded.shadow?.file,
    live_policy: compared.policy,
    shadow_policy: compared.shadow,
    is_same: compared.policy === compared.shadow,
    ...describeCasualties(mergeCasualties(counts, versionOf(compared))),
  };
}

/** Puts together what processes that serve one configuration counted. */
export function sumCasualties(loaded: LoadedConfig, counts: readonly CasualtyCounts[]): CasualtyCounts[] {
  const compared = comparedBy(loaded);
  return compared === null ? [] : [mergeCasualties(counts, versionOf(compared))];
}

function comparedBy(loaded: LoadedConfig): Compared | null {
  const promoted = withShadow(loaded);
  if (promoted === null) return null;
  return { policy: policyVersion(loaded.config), shadow: policyVersion(promoted.config) };
}

function versionOf({ policy, shadow }: Compared): string {
  return `${policy} ${shadow}`;
}
