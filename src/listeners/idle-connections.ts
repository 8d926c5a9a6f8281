import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { PublicServer } from './tls.js';
import { lastAnswer } from './pipelining.js';

/** How often idle connections are looked for, at most; a part of their time otherwise. */
const MAX_TICK_MS = 1_000;
const TICKS = 4;

/** A socket that node parses requests from. How long the current one takes so far, in milliseconds; 0 between two. */
interface Parsed {
  readonly parser?: { readonly duration?: () => number } | null;
}

/** An answer behind which nothing came yet, and since when that is known. */
interface Idle {
  readonly answer: ServerResponse;
  readonly since: number;
}

/**
 * Closes connections of HTTP/1 that wait for their next request longer than `limits.keep_alive`.
 *
 * Node does so itself, but any byte ends its wait, also the blank lines that it skips in front of a request (RFC 9112 2.2).
 *
 * @param keepAlive milliseconds
 */
export function limitIdle(
  server: PublicServer,
  event: 'connection' | 'secureConnection',
  keepAlive: number,
): void {
  const open = new Map<Socket, Idle | undefined>();
  server.on(event, (socket: Socket) => {
    // It comes a second time when its wish to change protocols was ignored.
    if (open.has(socket)) return;
    open.set(socket, undefined);
    socket.once('close', () => open.delete(socket));
  });
  const look = (): void => {
    const now = performance.now();
    for (const [socket, idle] of open) {
      const answer = waitsBehind(socket);
      if (answer === undefined) continue;
      if (idle?.answer !== answer) open.set(socket, { answer, since: now });
      else if (now - idle.since >= keepAlive) socket.destroy();
    }
  };
  const timer = setInterval(look, Math.min(MAX_TICK_MS, keepAlive / TICKS)).unref();
  server.once('close', () => clearInterval(timer));
}

/** The answer behind which a connection waits for its next request; undefined while it does anything else. */
function waitsBehind(socket: Socket): ServerResponse | undefined {
  const { parser } = socket as Parsed;
  const answer = lastAnswer(socket);
  // Without a parser its protocol was changed; while a head or body arrives, other limits hold.
  if (parser == null || answer === undefined || answer.socket !== null) return undefined;
  return (parser.duration?.() ?? 0) > 0 ? undefined : answer;
}
