import type { StrictRequest } from './strict.mjs';

/** How a talk over a raw connection went. */
export interface Talk {
  readonly bytes: Buffer;
  /** The other side closed the connection. */
  readonly ended: boolean;
}
export function talk(
  port: number,
  pieces: readonly Buffer[],
  options?: { enough?: (bytes: Buffer) => boolean; quietMs?: number; settleMs?: number; end?: boolean },
): Promise<Talk>;

/** A request, and the bytes it came as. */
export type SeenRequest = Omit<StrictRequest, 'end'> & { readonly bytes: Buffer };
/** What reached a raw upstream. */
export interface Seen {
  requests: SeenRequest[];
  /** Bytes that are no request. */
  faults: { fault: string; bytes: Buffer }[];
  /** What came through a tunnel. */
  tunnelled: Buffer[];
  /** Bytes of connections that ended in the middle of a request. */
  cut: Buffer[];
}
export function startStrictUpstream(): Promise<{
  port: number;
  url: string;
  seen: Seen;
  reset: () => void;
  close: () => void;
}>;
export function abandon(port: number, bytes: Buffer, ms: number): Promise<unknown>;
export function acceptOf(key: string | undefined): string;
