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

/** More digits could pass the numbers that are exact. */
const MAX_DIGITS = 15;

/** What the fields of one head say of its body and its connection. One a parser. */
export class Framing {
  /** Content-Length; -1 without one. */
  length = -1;
  chunked = false;
  hosts = 0;
  /** Options of Connection. */
  close = false;
  keepAlive = false;
  upgradeOption = false;
  upgradeField = false;
  /** The fields are trailers, where none of these belongs. */
  inTrailers = false;
  /** Trailers have a field that ends the connection. */
  endsInTrailers = false;
  readonly #refusesTrailers: boolean;
  readonly #refusesHosts: boolean;

  /**
   * @param refusesTrailers whether trailers with any field that means something here are refused
   * @param refusesHosts whether a second Host is refused
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
   * Takes in one field line; says what is wrong with it, if anything is.
   *
   * @param end of the value @param lineEnd of the whitespace behind it
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
        return this.#noteOptions(bytes, start, end);
      case PROXY_CONNECTION:
        if (isWord(bytes, start, end, CLOSE)) this.close = true;
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

  /** A list of tokens; empty elements mean nothing (RFC 9110 5.6.1). */
  #noteOptions(bytes: Uint8Array, start: number, end: number): Fault | undefined {
    // The usual one, at once.
    if (isWord(bytes, start, end, KEEP_ALIVE)) {
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
    return undefined;
  }

  #noteOption(bytes: Uint8Array, start: number, end: number): void {
    if (isWord(bytes, start, end, KEEP_ALIVE)) this.keepAlive = true;
    else if (isWord(bytes, start, end, CLOSE)) this.close = true;
    else if (isWord(bytes, start, end, UPGRADE_OPTION)) this.upgradeOption = true;
  }
}

/** Some readers take a tab behind a length or a coding for a part of it. */
function hasTab(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] === HTAB) return true;
  return false;
}
