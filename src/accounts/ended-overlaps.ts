import type { AuditEvent } from '../domain/audit.js';
import type { EpochMs } from '../domain/time.js';
import type { TokenStore } from '../store/token-store.js';
import { overlapEndedEvent } from './token-audit-events.js';

/** So many are reported at a time. */
const BATCH = 100;
/** Whoever began to report and was killed leaves it to another one after this. */
const CLAIM_MS = 120_000;

/**
 * Reports the rotated tokens whose overlap has ended, each with its last use: at least once, whoever is killed meanwhile.
 *
 * @param settle milliseconds after the end in which a last use may still be written
 * @throws StoreUnavailable
 */
export async function reportEndedOverlaps(
  tokens: Pick<TokenStore, 'claimEndedOverlaps' | 'finishOverlaps'>,
  settle: number,
  now: EpochMs,
  report: (event: AuditEvent) => void,
): Promise<void> {
  for (;;) {
    const ended = await tokens.claimEndedOverlaps(now - settle, now + CLAIM_MS, BATCH);
    for (const each of ended) report(overlapEndedEvent(each));
    if (ended.length > 0) await tokens.finishOverlaps(ended.map(({ token }) => token.id));
    if (ended.length < BATCH) return;
  }
}
