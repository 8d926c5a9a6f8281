import cluster from 'node:cluster';
import { newId } from '../../domain/secret.js';
import type { EpochMs } from '../../domain/time.js';

/** Where a primary leaves for its workers which sidecar they belong to. */
const VARIABLE = 'LATCHKEY_SIDECAR';

/** One server with all of its processes. */
export interface Sidecar {
  readonly id: string;
  readonly startedAt: EpochMs;
}

let own: Sidecar | undefined;

/** The sidecar that this process belongs to; a primary begins one, which its workers inherit. */
export function ownSidecar(): Sidecar {
  return (own ??= beginSidecar());
}

function beginSidecar(): Sidecar {
  const [id, startedAt] = cluster.isWorker ? (process.env[VARIABLE] ?? '').split(' ') : [];
  if (id !== undefined && startedAt !== undefined) return { id, startedAt: Number(startedAt) };
  const sidecar = { id: newId(), startedAt: Date.now() };
  process.env[VARIABLE] = `${sidecar.id} ${sidecar.startedAt}`;
  return sidecar;
}

/** The id of one of its processes. */
export function memberId({ id }: Sidecar, pid: number): string {
  return `${id}-${pid}`;
}
