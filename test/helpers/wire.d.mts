import type { StrictRequest } from './strict.mjs';

/** The outcome of an exchange over a raw connection. */
export interface Talk {
  readonly bytes: Buffer;
  /** Whether the peer closed the connection. */
  readonly ended: boolean;
}
export function talk(
  port: number,
  pieces: readonly Buffer[],
  options?: {
    enough?: (bytes: Buffer) => boolean;
    quietMs?: number;
    settleMs?: number;
    end?: boolean;
    localAddress?: string;
  },
): Promise<Talk>;

/** A request with its original bytes. */
export type SeenRequest = Omit<StrictRequest, 'end'> & { readonly bytes: Buffer };
/** What a raw upstream received. */
export interface Seen {
  requests: SeenRequest[];
  /** Bytes that are not a request. */
  faults: { fault: string; bytes: Buffer }[];
  /** Bytes received through a tunnel. */
  tunnelled: Buffer[];
  /** Bytes of connections that ended in the middle of a request. */
  cut: Buffer[];
}
export function startStrictUpstream(options?: {
  closesAfter?: (request: Omit<StrictRequest, 'end'>) => boolean;
}): Promise<{
  port: number;
  url: string;
  seen: Seen;
  reset: () => void;
  close: () => void;
}>;
export function abandon(port: number, bytes: Buffer, ms: number, localAddress?: string): Promise<unknown>;
export function acceptOf(key: string | undefined): string;
