import { once } from 'node:events';
import type { Socket } from 'node:net';
import { openRaw, type RawClient } from './raw-client.mjs';

/** Frame types (RFC 9113 6). */
export const DATA = 0;
export const HEADERS = 1;
export const RST_STREAM = 3;
export const SETTINGS = 4;
export const PING = 6;
export const GOAWAY = 7;
export const WINDOW_UPDATE = 8;
export const CONTINUATION = 9;

export const END_STREAM = 1;
export const ACK = 1;
export const END_HEADERS = 4;

/** Whether Node ends the connection after an invalid message, and not only its stream (nghttp2 1.69). */
export const endsInvalidConnections = Number(process.versions.nghttp2?.split('.')[1]) >= 69;

/** A received frame. */
export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** Encodes a frame. */
export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Buffer = Buffer.alloc(0),
): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Encodes a 32-bit integer. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Encodes HPACK fields, each as a literal without indexing or Huffman coding (RFC 7541 6.2.2). */
export function block(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1');
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const length = [127];
  let rest = bytes.length - 127;
  for (; rest >= 128; rest >>>= 7) length.push((rest & 127) | 128);
  return Buffer.concat([Buffer.from([...length, rest]), bytes]);
}

const STATUSES = [200, 204, 206, 304, 400, 404, 500];
/** Huffman codes of the digits (RFC 7541 B). */
const DIGITS = [
  '00000',
  '00001',
  '00010',
  '011001',
  '011010',
  '011011',
  '011100',
  '011101',
  '011110',
  '011111',
];

/** Decodes the status at the start of a connection's first header block. */
function statusOf(payload: Buffer): number {
  let at = 0;
  // A dynamic table size update may precede it.
  while (((payload[at] ?? 0) & 0xe0) === 0x20) at += (payload[at] ?? 0) === 0x3f ? 3 : 1;
  const first = payload[at] ?? 0;
  if (first & 0x80) return STATUSES[(first & 0x7f) - 8] ?? 0;
  const length = payload[at + 1] ?? 0;
  const value = payload.subarray(at + 2, at + 2 + (length & 0x7f));
  if ((length & 0x80) === 0) return Number(value.toString());
  let bits = [...value].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  let digits = '';
  while (digits.length < 3) {
    const digit = DIGITS.findIndex((code) => bits.startsWith(code));
    if (digit < 0) return 0;
    digits += digit;
    bits = bits.slice((DIGITS[digit] ?? '').length);
  }
  return Number(digits);
}

/** An HTTP/2 connection on which the test writes each frame itself. */
export class FrameConnection {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  #rest = Buffer.alloc(0);

  readonly #client: RawClient;

  private constructor(url: string) {
    const tls = { ALPNProtocols: ['h2'] };
    this.#client = openRaw(url, { tls, onData: (chunk) => this.#read(chunk) });
    this.socket = this.#client.socket;
  }

  get ended(): boolean {
    return this.#client.ended;
  }

  /**
   * Connects and sends the preface.
   * @param settings payload of the first SETTINGS
   */
  static async open(t: { teardown: (fn: () => void) => void }, url: string, settings = Buffer.alloc(0)) {
    const connection = new FrameConnection(url);
    t.teardown(() => connection.socket.destroy());
    await once(connection.socket, url.startsWith('https:') ? 'secureConnect' : 'connect');
    connection.write(Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0, settings));
    return connection;
  } // prettier-ignore

  write(...bytes: Buffer[]): void {
    if (!this.ended) this.socket.write(Buffer.concat(bytes));
  }

  /**
   * Returns the first frame of a type.
   * @param stream limits the search to this stream
   */
  find(type: number, stream?: number): Frame | undefined {
    return this.frames.find((each) => each.type === type && (stream === undefined || each.stream === stream));
  }

  /**
   * The outcome of a stream so far: a status, `reset CODE`, `goaway CODE` or `closed`; undefined if
   * it has none.
   */
  outcome(stream = 1): number | string | undefined {
    const headers = this.find(HEADERS, stream);
    if (headers !== undefined) return statusOf(headers.payload);
    const reset = this.find(RST_STREAM, stream);
    if (reset !== undefined) return `reset ${reset.payload.readUInt32BE(0)}`;
    const goaway = this.find(GOAWAY);
    if (goaway !== undefined) return `goaway ${goaway.payload.readUInt32BE(4)}`;
    return this.ended ? 'closed' : undefined;
  }

  #read(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    while (this.#rest.length >= 9) {
      const length = this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < 9 + length) return;
      const [type = 0, flags = 0] = this.#rest.subarray(3, 5);
      const stream = this.#rest.readUInt32BE(5) & 0x7fffffff;
      this.frames.push({ type, flags, stream, payload: Buffer.from(this.#rest.subarray(9, 9 + length)) });
      this.#rest = this.#rest.subarray(9 + length);
      // A client acknowledges the SETTINGS it receives.
      if (type === SETTINGS && (flags & ACK) === 0) this.write(frame(SETTINGS, ACK, 0));
    }
  }
}
