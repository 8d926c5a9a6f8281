import type { Refusal } from '../domain/refusal.js';
import { peerAddress, type PeerSocket } from '../http/client-address.js';
import { unreadableRequests } from '../observe/metrics/requests.js';
import { emptyRecord } from './record.js';
import type { Services } from './services.js';

/** Input that could not be parsed as a request, and what was responded. */
export interface UnreadableInput {
  readonly refusal: Refusal;
  readonly peer: PeerSocket;
  /** Null when another response had begun, so that none could be sent. */
  readonly response: { readonly requestId: string; readonly status: number } | null;
}

export function recordUnreadable(
  { accessLog }: Services,
  { refusal, peer, response }: UnreadableInput,
): void {
  unreadableRequests.inc({ reason: refusal.refusal });
  if (response === null) return;
  const record = emptyRecord(response.requestId);
  record.peer = peerAddress(peer);
  record.outcome = refusal.refusal;
  record.status = response.status;
  record.detail = 'detail' in refusal ? refusal.detail : undefined;
  if (accessLog.wants(record)) accessLog.write(record, null);
}
