import { bytesOf, COMMA, HTAB, isWord, NINE, SP, TOKEN, ZERO } from './bytes.js';
import type { Fault } from './faults.js';
import {
  CONNECTION,
  CONTENT_LENGTH,
  HOST,
  type Meaning,
  PROXY_CONNECTION,
  TRANSFER_ENCODING,
  UPGRADE,
} from './field-names.js';

const CHUNKED = bytesOf('chunked');
const CLOSE = bytesOf('close');
const KEEP_ALIVE = bytesOf('keep-alive');
const UPGRADE_OPTION = bytesOf('upgrade');

/** Maximum number of digits; longer numbers could exceed the safe integers. */
const MAX_DIGITS = 15;

/** Collects what the fields of a head say about its body and connection. Each parser has one. */
export class Framing {
  /** Content-Length in bytes; -1 if absent. */
  length = -1;
  chunked = false;
  hosts = 0;
  /** Options in the Connection field. */
  close = false;
  keepAlive = false;
  upgradeOption = false;
  upgradeField = false;
  /** Whether the fields are trailers, which change none of the above. */
  inTrailers = false;
  /** Whether trailers contain a field that ends the connection. */
  endsInTrailers = false;
  readonly #refusesTrailers: boolean;
  readonly #refusesHosts: boolean;

  /**
   * @param refusesTrailers whether to refuse trailers with any significant field
   * @param refusesHosts whether to refuse a second Host
   */
  constructor(refusesTrailers: boolean, refusesHosts = true) {
    this.#refusesTrailers = refusesTrailers;
    this.#refusesHosts = refusesHosts;
  }

  reset(): void {
    this.length = -1;
    this.chunked = false;
    this.hosts = 0;
    this.close = false;
    this.keepAlive = false;
    this.upgradeOption = false;
    this.upgradeField = false;
    this.inTrailers = false;
    this.endsInTrailers = false;
  }

  /**
   * Processes one significant field line.
   *
   * @param end index after the value
   * @param lineEnd index after the whitespace that follows the value
   * @returns why the field is refused, if it is
   */
  note(meaning: Meaning, bytes: Uint8Array, start: number, end: number, lineEnd: number): Fault | undefined {
    if (this.inTrailers) {
      if (this.#refusesTrailers || meaning === CONTENT_LENGTH) return 'trailer_forbidden';
      this.endsInTrailers = true;
      return undefined;
    }
    switch (meaning) {
      case HOST:
        this.hosts += 1;
        return this.hosts > 1 && this.#refusesHosts ? 'host_repeated' : undefined;
      case CONTENT_LENGTH:
        return hasTab(bytes, end, lineEnd) ? 'length_invalid' : this.#noteLength(bytes, start, end);
      case TRANSFER_ENCODING:
        if (this.chunked) return 'coding_repeated';
        if (!isWord(bytes, start, end, CHUNKED) || hasTab(bytes, end, lineEnd)) return 'coding_unknown';
        this.chunked = true;
        return this.length < 0 ? undefined : 'length_and_coding';
      case CONNECTION:
        return this.#noteOptions(bytes, start, end, lineEnd);
      case PROXY_CONNECTION:
        // No RFC defines it, and some readers find `close` anywhere in it.
        if (!isWord(bytes, start, end, KEEP_ALIVE)) this.close = true;
        return undefined;
      case UPGRADE:
        this.upgradeField = true;
        return undefined;
      default:
        return undefined;
    }
  }

  #noteLength(bytes: Uint8Array, start: number, end: number): Fault | undefined {
    if (this.length >= 0) return 'length_repeated';
    if (end === start || end - start > MAX_DIGITS) return 'length_invalid';
    let length = 0;
    for (let i = start; i < end; i++) {
      const code = bytes[i] as number;
      if (code < ZERO || code > NINE) return 'length_invalid';
      length = length * 10 + code - ZERO;
    }
    this.length = length;
    return this.chunked ? 'length_and_coding' : undefined;
  }

  /** Reads a list of tokens, ignoring empty elements (RFC 9110 5.6.1). */
  #noteOptions(bytes: Uint8Array, start: number, end: number, lineEnd: number): Fault | undefined {
    // Fast path for the usual value.
    if (end === lineEnd && isWord(bytes, start, end, KEEP_ALIVE)) {
      this.keepAlive = true;
      return undefined;
    }
    let i = start;
    while (i < end) {
      const code = bytes[i] as number;
      if (code === COMMA || code === SP || code === HTAB) {
        i++;
        continue;
      }
      const from = i;
      while (i < end && TOKEN[bytes[i] as number] === 1) i++;
      this.#noteOption(bytes, from, i);
      while (i < end && (bytes[i] === SP || bytes[i] === HTAB)) i++;
      if (i < end && bytes[i] !== COMMA) return 'connection_invalid';
    }
    // A reader that does not end an option at a tab does not find `keep-alive`.
    if (hasTab(bytes, start, lineEnd)) this.keepAlive = false;
    return undefined;
  }

  #noteOption(bytes: Uint8Array, start: number, end: number): void {
    if (isWord(bytes, start, end, KEEP_ALIVE)) this.keepAlive = true;
    else if (isWord(bytes, start, end, CLOSE)) this.close = true;
    else if (isWord(bytes, start, end, UPGRADE_OPTION)) this.upgradeOption = true;
  }
}

/** Returns whether a range has a tab. Some parsers take one for a part of the value before it. */
function hasTab(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] === HTAB) return true;
  return false;
}
