import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Deployment, Subject } from './check.js';
import { type Destination, PROBE_MS, tlsOptions } from './exchange.js';
import { decodeStatus, encodeFields } from './hpack.js';
import { type Answer, type Field, MAX_BODY, noAnswer } from './message.js';

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

/**
 * Asks by HTTP/2, each request on a connection of its own.
 *
 * Node's client refuses to send what is wrong, and that is what this is for.
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

  /** Finds out whether HTTP/2 is offered: by ALPN, or without TLS by prior knowledge. Undefined when it is not. */
  static async open(deployment: Deployment, to = deployment.to): Promise<Http2Client | undefined> {
    const client = new Http2Client(deployment, to);
    const answer = await client.request(deployment.unknownPath, []);
    return answer.fault === '' ? client : undefined;
  }

  /** Asks for the path of a subject as its view, with more fields. */
  async get({ path, view }: Subject, more: readonly Field[], target = path, trailers: readonly Field[] = []): Promise<Answer> {
    const own = view.fields.map(([name, value]) => [name.toLowerCase(), value] as const);
    return this.request(target, [...own, ...more], trailers);
  }

  /** Asks for a target with some fields. */
  async request(path: string, fields: readonly Field[], trailers: readonly Field[] = []): Promise<Answer> {
    const { options } = this.#deployment;
    const to = this.#to;
    this.#deployment.spend();
    const block = encodeFields([
      [':method', 'GET'],
      [':scheme', to.isTls ? 'https' : 'http'],
      [':authority', to.authority],
      [':path', path],
      ['user-agent', `latchkey-doctor/${options.version}`],
      ['accept', 'application/json, */*;q=0.5'],
      ...fields,
    ]);
    const socket = to.isTls
      ? connectTls(tlsOptions(to, { ALPNProtocols: ['h2'] }))
      : connect({ host: to.host, port: to.port });
    const blocks = trailers.length === 0 ? [block] : [block, encodeFields(trailers)];
    const heads = blocks.map((each, i) => frame(HEADERS, END_HEADERS | (i === blocks.length - 1 ? END_STREAM : 0), STREAM, each));
    socket.write(Buffer.concat([PREFACE, frame(SETTINGS, 0, 0), ...heads]));
    return read(socket, to.timeout);
  }
} // prettier-ignore

function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Reads frames to the end of the one answer. A server that does not begin with SETTINGS does not speak HTTP/2. */
async function read(socket: Socket, timeout = PROBE_MS): Promise<Answer> {
  const sentAt = Date.now();
  return new Promise((done) => {
    let rest = Buffer.alloc(0);
    let status = 0;
    let spoke = false;
    const body: Buffer[] = [];
    const finish = (fault: string) => {
      clearTimeout(timer);
      const answer = noAnswer(status === 0 ? fault : '', sentAt, socket.remoteAddress);
      socket.destroy();
      done({ ...answer, status, body: Buffer.concat(body).toString('utf8').slice(0, MAX_BODY) });
    };
    const timer = setTimeout(() => finish(spoke ? '' : 'ETIMEDOUT'), timeout);
    socket.on('error', (error: NodeJS.ErrnoException) => finish(spoke ? '' : (error.code ?? error.message)));
    socket.on('close', () => finish(spoke ? '' : 'closed'));
    socket.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (let whole = nextFrame(rest); whole !== undefined; whole = nextFrame(rest)) {
        rest = rest.subarray(whole.size);
        if (!spoke && whole.type !== SETTINGS) return finish('no HTTP/2');
        spoke = true;
        if (whole.type === SETTINGS && (whole.flags & ACK) === 0) socket.write(frame(SETTINGS, ACK, 0));
        if (whole.type === GOAWAY || whole.type === RESET) return finish('');
        if (whole.type === HEADERS && status < 200) status = decodeStatus(contentOf(whole));
        if (whole.type === DATA) body.push(contentOf(whole));
        if ((whole.type === HEADERS || whole.type === DATA) && whole.flags & END_STREAM) return finish('');
      }
    });
  });
} // prettier-ignore

interface Whole {
  readonly type: number;
  readonly flags: number;
  readonly payload: Buffer;
  readonly size: number;
}

function nextFrame(bytes: Buffer): Whole | undefined {
  if (bytes.length < HEAD_BYTES) return undefined;
  const size = HEAD_BYTES + bytes.readUIntBE(0, 3);
  if (bytes.length < size) return undefined;
  return { type: bytes[3] ?? 0, flags: bytes[4] ?? 0, payload: bytes.subarray(HEAD_BYTES, size), size };
}

/** A payload without padding and priority. */
function contentOf({ type, flags, payload }: Whole): Buffer {
  const padding = flags & PADDED ? (payload[0] ?? 0) : 0;
  const start = (flags & PADDED ? 1 : 0) + (type === HEADERS && flags & PRIORITY ? 5 : 0);
  return payload.subarray(start, payload.length - padding);
}
