import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Test } from 'tap';
import { Limiter } from '../../src/domain/limiter.js';
import type { Refusal } from '../../src/domain/refusal.js';
import { createUpgrade } from '../../src/upstream/upgrade.js';
import { type Upstream, Waits } from '../../src/upstream/upstreams.js';
import { acceptOf } from './wire.mjs';

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
/** A 101 that opens a WebSocket, without the end of its head. */
export const OPENS = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptOf(KEY)}\r\n`;

/** What one handshake leads to. */
export interface Exchange {
  readonly log: string[];
  /** Responses of the upstream for the client. */
  readonly passed: readonly Buffer[];
  /** Has two places, one of them taken. */
  readonly limiter: Limiter;
  readonly client: Socket;
  /** The client's end; `client` is that of the server. */
  readonly far: Socket;
  /** The upstream's end. */
  readonly upstream: Socket;
  /** The connection to the upstream. */
  readonly opened: Socket;
  readonly active: () => number;
  /** Bytes that wait for a side to read. */
  readonly blocked: () => number;
}

/**
 * Sends a handshake to an upstream.
 *
 * @param more what throws after it was noted; milliseconds for the response, and for what is left
 *   after the end of a side
 */
export async function shake(t: Test, more: { broken?: string; timeout?: number; idle?: number } = {}): Promise<Exchange> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const pair = async () => {
    const socket = connect({ port: (server.address() as AddressInfo).port, allowHalfOpen: true });
    const [[far]] = (await Promise.all([once(server, 'connection'), once(socket, 'connect')])) as [[Socket], unknown];
    t.teardown(() => void (socket.destroy(), far.destroy()));
    far.on('error', () => undefined).resume();
    return [socket.on('error', () => undefined), far] as const;
  };
  const [[client, far], [opened, upstream]] = [await pair(), await pair()];
  const log: string[] = [];
  const passed: Buffer[] = [];
  const limiter = new Limiter({ size: 2, maxWaiting: 0, timeout: 1_000, patience: 0 });
  const address = { prefix: '', host: 'x', connect: (done: (outcome: Socket) => void) => done(opened), active: 0 };
  const note = (what: string) => () => {
    log.push(what);
    if (what === more.broken) throw new Error(what);
  };
  const settings = { max_response_head: 16_384, retries: 1 };
  const waits = new Waits('x', { response_timeout: more.timeout ?? 60_000, idle_timeout: more.idle ?? 60_000 });
  const parts = { limiter, settings, waitsOf: () => waits, choose: () => address, failed: note('failed'), report: note('reported'), answered: note('answered'), hostFor: () => undefined };
  createUpgrade([])({
    head: { fields: ['Sec-WebSocket-Key', KEY], client: { address: '192.0.2.1' } } as never,
    subject: null,
    socket: client.resume(),
    headBytes: Buffer.alloc(0),
    upstream: parts as unknown as Upstream,
    target: '/',
    limits: null,
    fields: [],
    responseFields: [],
    cors: null,
    pass: (response) => (passed.push(response), note('passed')()),
    refuse: ({ refusal }: Refusal) => note(refusal)(),
    fault: (error) => void log.push(`fault ${(error as Error).message}`),
    done: ({ status }) => note(`done ${status}`)(),
  });
  await once(upstream, 'data');
  return { log, passed, limiter, client, far, opened, upstream, active: () => limiter.active + address.active, blocked: () => client.writableLength + opened.writableLength };
} // prettier-ignore
