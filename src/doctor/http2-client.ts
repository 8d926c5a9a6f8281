import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Deployment, Subject } from './check.js';
import { type Destination, PROBE_MS, tlsOptions } from './exchange.js';
import { type ProbeResponse, type Field, MAX_BODY, noResponse } from './message.js';

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const HEAD_BYTES = 9;
const DATA = 0;
const HEADERS = 1;
const RESET = 3;
const SETTINGS = 4;
const GOAWAY = 7;
const END_STREAM = 1;
const ACK = 1;
const END_HEADERS = 4;
const PADDED = 8;
const PRIORITY = 0x20;
const STREAM = 1;
/** The first stream that a client opens after an upgrade, which uses the first one. */
const NEXT_STREAM = 3;

/**
 * An HTTP/2 client that opens a connection for each request.
 *
 * Node's client refuses to send malformed messages, which this one is for.
 */
export class Http2Client {
  readonly #deployment: Deployment;
  readonly #to: Destination;
  readonly protocol: 'h2' | 'h2c';

  private constructor(deployment: Deployment, to: Destination) {
    this.#deployment = deployment;
    this.#to = to;
    this.protocol = to.isTls ? 'h2' : 'h2c';
  }

  /**
   * Returns a client if HTTP/2 is offered, by ALPN or without TLS by prior knowledge; otherwise
   * undefined.
   */
  static async open(deployment: Deployment, to = deployment.to): Promise<Http2Client | undefined> {
    const client = new Http2Client(deployment, to);
    const answer = await client.request(deployment.unknownPath, []);
    return answer.fault === '' ? client : undefined;
  }

  /** Requests the path of a subject in its view, with additional fields. */
  async get({ path, view }: Subject, more: readonly Field[], target = path, trailers: readonly Field[] = []): Promise<ProbeResponse> {
    const own = view.fields.map(([name, value]) => [name.toLowerCase(), value] as const);
    return this.request(target, [...own, ...more], trailers);
  }

  /** Requests a target with additional fields. */
  async request(path: string, fields: readonly Field[], trailers: readonly Field[] = []): Promise<ProbeResponse> {
    const to = this.#to;
    this.#deployment.countRequest();
    const block = headOf(this.#deployment, to, path, fields);
    const socket = to.isTls
      ? connectTls(tlsOptions(to, { ALPNProtocols: ['h2'] }))
      : connect({ host: to.host, port: to.port });
    const blocks = trailers.length === 0 ? [block] : [block, encodeFields(trailers)];
    const heads = blocks.map((each, i) => frame(HEADERS, END_HEADERS | (i === blocks.length - 1 ? END_STREAM : 0), STREAM, each));
    socket.write(Buffer.concat([PREFACE, frame(SETTINGS, 0, 0), ...heads]));
    return read(socket, to.timeout);
  }
} // prettier-ignore

/**
 * Sends an HTTP/1.1 request that upgrades its connection to HTTP/2, then requests a path over that
 * connection. Returns the response to the second request, without status if there is no upgrade.
 */
export async function requestAfterUpgrade(deployment: Deployment, fields: readonly Field[], target: string, path: string): Promise<ProbeResponse> {
  const { to, options } = deployment;
  deployment.countRequest();
  const socket = to.isTls ? connectTls(tlsOptions(to)) : connect({ host: to.host, port: to.port });
  const lines = [['Host', to.authority], ['User-Agent', `latchkey-doctor/${options.version}`], ...fields].map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET ${target} HTTP/1.1\r\n${lines.join('')}\r\n`);
  const rest = await switched(socket, to.timeout);
  if (rest === undefined) return noResponse('no upgrade', Date.now(), '');
  const head = frame(HEADERS, END_HEADERS | END_STREAM, NEXT_STREAM, headOf(deployment, to, path, []));
  socket.write(Buffer.concat([PREFACE, frame(SETTINGS, 0, 0), head]));
  socket.unshift(rest);
  const answer = read(socket, to.timeout, NEXT_STREAM);
  socket.resume();
  return answer;
} // prettier-ignore

/** Waits for the response 101. Returns the bytes after its head; undefined for any other response. */
async function switched(socket: Socket, timeout = PROBE_MS): Promise<Buffer | undefined> {
  return new Promise((done) => {
    let head = Buffer.alloc(0);
    const finish = (rest?: Buffer) => {
      clearTimeout(timer);
      socket.removeAllListeners('data').removeAllListeners('close').pause();
      if (rest === undefined) socket.destroy();
      done(rest);
    };
    const timer = setTimeout(finish, timeout);
    socket.on('error', () => undefined);
    socket.on('close', () => finish());
    socket.on('data', (chunk: Buffer) => {
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end >= 0)
        finish(head.toString('latin1').startsWith('HTTP/1.1 101') ? head.subarray(end + 4) : undefined);
    });
  });
}

function headOf({ options }: Deployment, to: Destination, path: string, fields: readonly Field[]): Buffer {
  return encodeFields([
    [':method', 'GET'],
    [':scheme', to.isTls ? 'https' : 'http'],
    [':authority', to.authority],
    [':path', path],
    ['user-agent', `latchkey-doctor/${options.version}`],
    ['accept', 'application/json, */*;q=0.5'],
    ...fields,
  ]);
}

function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/**
 * Reads frames to the end of the response on a stream. A server that does not begin with SETTINGS
 * does not speak HTTP/2.
 */
async function read(socket: Socket, timeout = PROBE_MS, stream = STREAM): Promise<ProbeResponse> {
  const sentAt = Date.now();
  return new Promise((done) => {
    let rest = Buffer.alloc(0);
    let status = 0;
    let spoke = false;
    const body: Buffer[] = [];
    const finish = (fault: string) => {
      clearTimeout(timer);
      const answer = noResponse(status === 0 ? fault : '', sentAt, socket.remoteAddress);
      socket.destroy();
      done({ ...answer, status, body: Buffer.concat(body).toString('utf8').slice(0, MAX_BODY) });
    };
    const timer = setTimeout(() => finish(spoke ? '' : 'ETIMEDOUT'), timeout);
    socket.on('error', (error: NodeJS.ErrnoException) => finish(spoke ? '' : (error.code ?? error.message)));
    socket.on('close', () => finish(spoke ? '' : 'closed'));
    socket.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (let received = nextFrame(rest); received !== undefined; received = nextFrame(rest)) {
        rest = rest.subarray(received.size);
        if (!spoke && received.type !== SETTINGS) return finish('no HTTP/2');
        spoke = true;
        if (received.type === SETTINGS && (received.flags & ACK) === 0) socket.write(frame(SETTINGS, ACK, 0));
        if (received.type === GOAWAY) return finish('');
        if (received.stream !== stream) continue;
        if (received.type === RESET) return finish('');
        if (received.type === HEADERS && status < 200) status = decodeStatus(contentOf(received));
        if (received.type === DATA) body.push(contentOf(received));
        if ((received.type === HEADERS || received.type === DATA) && received.flags & END_STREAM) return finish('');
      }
    });
  });
} // prettier-ignore

interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
  readonly size: number;
}

function nextFrame(bytes: Buffer): Frame | undefined {
  if (bytes.length < HEAD_BYTES) return undefined;
  const size = HEAD_BYTES + bytes.readUIntBE(0, 3);
  if (bytes.length < size) return undefined;
  const stream = bytes.readUInt32BE(5) & 0x7f_ff_ff_ff;
  return {
    type: bytes[3] ?? 0,
    flags: bytes[4] ?? 0,
    stream,
    payload: bytes.subarray(HEAD_BYTES, size),
    size,
  };
}

/** Returns a payload without padding and priority. */
function contentOf({ type, flags, payload }: Frame): Buffer {
  const padding = flags & PADDED ? (payload[0] ?? 0) : 0;
  const start = (flags & PADDED ? 1 : 0) + (type === HEADERS && flags & PRIORITY ? 5 : 0);
  return payload.subarray(start, payload.length - padding);
}

/** Statuses of the static table from index 8 (RFC 7541 appendix A). */
const INDEXED_STATUSES: readonly number[] = [200, 204, 206, 304, 400, 404, 500];
const FIRST_STATUS = 8;
/** Huffman codes of the digits (RFC 7541 appendix B). */
const DIGITS: readonly string[] = [
  '00000', '00001', '00010', '011001', '011010', '011011', '011100', '011101', '011110', '011111',
]; // prettier-ignore

const MAX_PREFIX = 127;

/** Encodes fields literally, without table or Huffman coding, so that every byte can be sent. */
function encodeFields(fields: readonly Field[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1');
  const length: number[] = [];
  if (bytes.length < MAX_PREFIX) length.push(bytes.length);
  else {
    length.push(MAX_PREFIX);
    let rest = bytes.length - MAX_PREFIX;
    for (; rest > MAX_PREFIX; rest >>= 7) length.push((rest & MAX_PREFIX) | 0x80);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** Decodes `:status`, the first field of every response block; 0 when it is missing. */
function decodeStatus(block: Buffer): number {
  let at = 0;
  // Dynamic table size updates come first.
  while (((block[at] ?? 0) & 0xe0) === 0x20) at += 1;
  const first = block[at] ?? 0;
  if (first & 0x80) return INDEXED_STATUSES[(first & MAX_PREFIX) - FIRST_STATUS] ?? 0;
  const head = block[at + 1] ?? 0;
  const value = block.subarray(at + 2, at + 2 + (head & MAX_PREFIX));
  return Number(head & 0x80 ? digitsOf(value) : value.toString('latin1')) || 0;
}

function digitsOf(coded: Buffer): string {
  let bits = [...coded].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  let digits = '';
  while (digits.length < 3) {
    const digit = DIGITS.findIndex((code) => bits.startsWith(code));
    if (digit < 0) return '';
    digits += digit;
    bits = bits.slice((DIGITS[digit] ?? '').length);
  }
  return digits;
}
