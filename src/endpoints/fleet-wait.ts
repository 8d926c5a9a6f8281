import type { FleetReceipt } from '../accounts/fleet-receipts.js';
import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import type { Reply } from '../http/replies.js';
import type { EndpointServices } from './services.js';
import type { FleetReceiptObject } from './schema/responses.js';

export function readWait({ query }: RequestHead): { readonly fleet: boolean } | Refusal {
  const given = new URLSearchParams(query).getAll('wait');
  if (given.length === 0) return { fleet: false };
  if (given.length === 1 && given[0] === 'fleet') return { fleet: true };
  // A client that asks to wait must not mistake another response for the confirmation.
  return {
    refusal: 'grant',
    status: 422,
    code: 'Unprocessable Entity',
    detail: 'wait must be "fleet" and given once; omit it for an immediate response',
  };
}

/** 200 when every sidecar has dropped the token, else 202. */
export async function receiptReply(
  sentAt: number,
  { receipts }: Pick<EndpointServices, 'receipts'>,
): Promise<Reply<FleetReceiptObject>> {
  const receipt = await receipts.collect(sentAt);
  return { status: receipt.missing.length === 0 ? 200 : 202, json: receiptObject(receipt) };
}

function receiptObject({ sidecars, slowestMs, missing }: FleetReceipt): FleetReceiptObject {
  return {
    sidecars,
    slowest_ms: slowestMs,
    ...(missing.length === 0
      ? {}
      : {
          missing: missing.map(({ name, heartbeatAge }) => ({ name, heartbeat_age_ms: heartbeatAge })),
        }),
  };
}
