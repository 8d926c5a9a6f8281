import type { Socket } from 'node:net';
import { serveTcp } from '../helpers/http.js';

/**
 * An upstream that records what it receives, framed strictly by RFC 9112, and answers each request
 * with 200. It shares no parser with the server under test, so any difference in framing shows.
 */
export interface Recorder {
  readonly url: string;
  /** All bytes since the last reset. */
  bytes(): string;
  /** Request heads, chunk sizes, trailers, and all bytes outside complete requests. */
  heads(): string;
  /** The request lines. */
  requests(): readonly string[];
  reset(): void;
}

/** Starts a {@link Recorder} on a free loopback port. */
export async function startRecorder(t: { teardown: (fn: () => void) => void }): Promise<Recorder> {
  let bytes = '';
  let heads = '';
  let requests: string[] = [];
  const rest = new Map<Socket, string>();
  const { url } = await serveTcp(t, (socket) => {
    let pending = '';
    socket.on('error', () => socket.destroy());
    socket.on('close', () => rest.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1');
      bytes += text;
      pending += text;
      for (let message = readMessage(pending); message !== undefined; message = readMessage(pending)) {
        pending = pending.slice(message.length);
        requests.push(message.head.split('\r\n', 1)[0] ?? '');
        heads += `${message.head}\r\n\r\n${message.framing}`;
        socket.write(answerTo(message.head));
      }
      rest.set(socket, pending);
    });
  });
  return {
    url,
    bytes: () => bytes,
    heads: () => heads + [...rest.values()].join(''),
    requests: () => requests,
    reset: () => {
      bytes = heads = '';
      requests = [];
      for (const socket of rest.keys()) rest.set(socket, '');
    },
  };
}

interface Message {
  readonly head: string;
  /** Chunk sizes and trailers. */
  readonly framing: string;
  /** The length of the whole message in bytes. */
  readonly length: number;
}

/** Parses one complete message at the start; undefined if it is incomplete. */
function readMessage(text: string): Message | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = text.slice(0, end);
  if (/^transfer-encoding:.*chunked/im.test(head)) return readChunked(text, head, end + 4);
  const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
  return text.length < end + 4 + length ? undefined : { head, framing: '', length: end + 4 + length };
}

function readChunked(text: string, head: string, from: number): Message | undefined {
  let framing = '';
  for (let at = from; ;) {
    const lineEnd = text.indexOf('\r\n', at);
    if (lineEnd < 0) return undefined;
    const line = text.slice(at, lineEnd);
    const size = Number.parseInt(line, 16);
    framing += `${line}\r\n`;
    at = lineEnd + 2;
    if (Number.isNaN(size)) return { head, framing, length: at };
    if (size === 0) {
      const trailersEnd = text.startsWith('\r\n', at) ? at - 2 : text.indexOf('\r\n\r\n', at);
      if (trailersEnd < 0) return undefined;
      return { head, framing: framing + text.slice(at, trailersEnd + 4), length: trailersEnd + 4 };
    }
    at += size + 2;
    if (text.length < at) return undefined;
  }
}

function answerTo(head: string): string {
  const body = head.startsWith('HEAD ') ? '' : 'ok';
  return `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}
