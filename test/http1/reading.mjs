/**
 * Compares two readers of the same bytes: the codec of `src/http1`, and Node's parser (llhttp,
 * strict). A reading is a list of messages, each with head, body and trailers, and the reason if
 * the reader refused to continue.
 */
import common from 'node:_http_common';

/** @import { Message, Parser, Reading } from './reading.mjs' */
/**
 * @template T
 * @typedef {{ -readonly [Key in keyof T]: T[Key] }} Mutable
 */
/** @typedef {Mutable<Omit<Reading, 'messages'>> & { messages: Mutable<Message>[] }} Draft */

const { HTTPParser, methods: METHODS } = common;

const NEED_DATA = 0;
const HEAD = 1;
const INFORMATIONAL = 2;
const DATA = 3;
const END = 4;
const FAULT = 6;
const MAX_HEAD = 1 << 24;

/**
 * Feeds chunks to a parser as they arrive, in a buffer that is used for all of them.
 *
 * @param {Parser} parser a fresh one; a ResponseParser must already expect a response
 * @param {readonly Buffer[]} pieces
 * @param ended whether the connection closes after them
 * @returns {Reading}
 */
export function readWithCodec(parser, pieces, ended = true) {
  /** @type {Draft} */
  const reading = { messages: [], fault: undefined, faultAt: undefined, closed: false };
  const received = Buffer.alloc(pieces.reduce((longest, { length }) => Math.max(longest, length), 0));
  for (const piece of pieces) {
    parser.feed(received.subarray(0, piece.copy(received)));
    if (!drain(parser, reading)) return reading;
    parser.own();
    received.fill('*');
  }
  if (ended) {
    parser.finish();
    drain(parser, reading);
  }
  return reading;
}

/**
 * @param {Parser} parser
 * @param {Draft} reading
 */
function drain(parser, reading) {
  const { messages } = reading;
  for (;;) {
    const event = parser.next();
    if (event === NEED_DATA) return true;
    if (event === HEAD || event === INFORMATIONAL) {
      messages.push(messageOf(parser, event === INFORMATIONAL));
      continue;
    }
    const message = messages[messages.length - 1];
    if (event === DATA) message.body += parser.data.toString('latin1');
    else if (event === END) {
      message.trailers = [...parser.trailers];
      message.complete = true;
      message.persistent = parser.persistent;
    } else {
      if (event === FAULT) Object.assign(reading, { fault: parser.fault, faultAt: parser.faultAt });
      else reading.closed = true;
      return false;
    }
  }
}

/**
 * @param {Parser} parser
 * @param {boolean} isInformational
 * @returns {Message}
 */
function messageOf(parser, isInformational) {
  const isRequest = parser.method !== undefined;
  return {
    ...(isRequest
      ? { method: parser.method, target: parser.target }
      : { status: parser.status, reason: parser.reason }),
    minor: parser.minor,
    fields: [...parser.fields],
    body: '',
    trailers: [],
    complete: isInformational,
    persistent: parser.persistent,
    ...(isRequest ? { upgrade: parser.upgrade } : {}),
  };
}

/**
 * @param {Buffer} bytes
 * @param {string | undefined} method of the request that the response belongs to; undefined to read
 *   requests
 * @returns {Reading}
 */
export function readWithNode(bytes, method, ended = true) {
  /** @type {Draft} */
  const reading = { messages: [], fault: undefined };
  for (let from = 0; ;) {
    const read = readOnce(reading, bytes.subarray(from), method, ended);
    // Node stops after a request for another protocol; what follows is read as the next request.
    const goesOn = method === undefined && read > 0 && reading.messages.at(-1)?.method !== 'CONNECT';
    from += read;
    if (!goesOn || from >= bytes.length) return reading;
  }
}

/**
 * @param {Draft} reading
 * @param {Buffer} bytes
 * @param {string | undefined} method
 * @param {boolean} ended
 * @returns the number of bytes read; 0 if they were refused
 */
function readOnce(reading, bytes, method, ended) {
  const parser = new HTTPParser();
  parser.initialize(method === undefined ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {}, MAX_HEAD, 0);
  /** @type {string[]} */
  let batch = [];
  let url = '';
  parser[HTTPParser.kOnHeaders | 0] = (/** @type {string[]} */ fields, /** @type {string} */ part) => {
    batch.push(...fields);
    url += part ?? '';
  };
  /**
   * @typedef {[number, number, string[]?, number?, string?, number?, string?, boolean?, boolean?]}
   *   Head
   */
  parser[HTTPParser.kOnHeadersComplete | 0] = (
    /** @type {Head} */ ...[, minor, fields, index = 0, target, status = 0, reason, , keepAlive]
  ) => {
    /** @type {Mutable<Message>} */
    const message = {
      minor,
      fields: [...batch, ...(fields ?? [])],
      body: '',
      trailers: [],
      complete: false,
      keepAlive,
    };
    if (method === undefined)
      Object.assign(message, { method: METHODS[index], target: url + (target ?? '') });
    else Object.assign(message, { status, reason });
    reading.messages.push(message);
    batch = [];
    url = '';
    if (method === undefined) return message.method === 'CONNECT' ? 2 : 0;
    return status === 101 || (method === 'CONNECT' && status >= 200 && status < 300)
      ? 2
      : status < 200 || method === 'HEAD'
        ? 1
        : 0;
  };
  parser[HTTPParser.kOnBody | 0] = (/** @type {Buffer} */ data) => {
    reading.messages[reading.messages.length - 1].body += data.toString('latin1');
  };
  parser[HTTPParser.kOnMessageComplete | 0] = () => {
    const message = reading.messages[reading.messages.length - 1];
    message.trailers = batch;
    message.complete = true;
    batch = [];
    url = '';
  };
  const read = bytes.length === 0 ? 0 : parser.execute(bytes);
  const finished = ended && read === bytes.length ? parser.finish() : undefined;
  parser.close();
  const error = [read, finished].find((result) => result instanceof Error);
  reading.fault = error?.code;
  return error === undefined ? Number(read) : 0;
}

const HEAD_PARTS = /** @type {const} */ (['method', 'target', 'status', 'reason', 'minor']);

/**
 * Returns where the codec accepted more than the other reader, or read something else; undefined if
 * nowhere.
 *
 * @param {Reading} ours reading of the codec
 * @param {Reading} theirs of the other reader
 * @returns {string | undefined}
 */
export function lenience(ours, theirs) {
  for (const [i, message] of ours.messages.entries()) {
    const other = theirs.messages[i];
    // Node's parser knows fewer methods, reads nothing of any other, and does not name QUERY.
    if (message.method !== undefined && (message.method === 'QUERY' || !METHODS.includes(message.method)))
      return undefined;
    if (other === undefined) return `message ${i} is no message to the other: ${theirs.fault}`;
    for (const part of HEAD_PARTS)
      if (message[part] !== other[part])
        return `the ${part} of message ${i}: ${message[part]}, ${other[part]}`;
    const difference = listDifference(message.fields, other.fields);
    if (difference !== undefined) return `the fields of message ${i}: ${difference}`;
    if (!message.complete) {
      if (!other.body.startsWith(message.body)) return `the body of message ${i}`;
    } else {
      if (!other.complete) return `message ${i} is not complete to the other: ${theirs.fault}`;
      if (message.body !== other.body) return `the body of message ${i}`;
      const trailing = listDifference(message.trailers, other.trailers);
      if (message.persistent && !other.keepAlive) return `message ${i} ends the connection to the other`;
      if (trailing !== undefined) return `the trailers of message ${i}: ${trailing}`;
    }
  }
  return undefined;
}

/**
 * @param {readonly string[]} ours
 * @param {readonly string[]} theirs
 */
function listDifference(ours, theirs) {
  if (ours.length !== theirs.length) return `${ours.length}, ${theirs.length}`;
  const at = ours.findIndex((text, i) => text !== theirs[i]);
  return at < 0 ? undefined : JSON.stringify([ours[at], theirs[at]]);
}

/**
 * Summarizes a reading, one line for each message, for corpora and failure messages.
 *
 * @param {Omit<Reading, 'faultAt'> & { readonly faultAt?: number | string | undefined }} reading
 */
export function summarise({ messages, fault, faultAt }) {
  const lines = messages.map(({ method, target, status, body, complete }) => {
    const head = method === undefined ? String(status) : `${method} ${target}`;
    return `${head} ${complete ? '' : 'cut '}${body.length}`;
  });
  return fault === undefined ? lines : [...lines, `${fault} ${faultAt}`];
}
