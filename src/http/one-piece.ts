import type { ServerResponse } from 'node:http';

/**
 * Ends an answer of HTTP/1.1 whose whole body was written as one string, so that the system takes it together with its head in
 * one piece.
 *
 * Left alone, node's `end` adds an empty piece behind what it still holds back, and a list of pieces is copied into memory of
 * its own first.
 */
export function endInOnePiece(res: ServerResponse): void {
  // What was held back goes out now; what comes after finds nothing to wait for.
  res.socket?.uncork();
  res.end();
}
