import { type Bytes, bytesOf, CR, LF, METHOD, MINOR, SP, TARGET, VERSION, ZERO } from './bytes.js';
import { INCOMPLETE, LineScanner } from './line-scanner.js';
import { findMethod, MAX_METHOD_LENGTH } from './methods.js';

const START = 0;
const EMPTY_LINE_LF = 1;
const METHOD_STATE = 2;
const TARGET_STATE = 3;
const VERSION_STATE = 4;

/** The bytes after the target and its space. */
const VERSION_END = bytesOf(`${VERSION}\r\n`);

/** Maximum bytes of a request line besides its target: an empty line, the method, two spaces. */
export const MAX_AROUND_TARGET = 2 + MAX_METHOD_LENGTH + 2 + VERSION_END.length;

/** Parses a request line, after at most one empty line. It resumes like {@link FieldLines}. */
export class RequestLine extends LineScanner {
  method = '';
  /** Start and end of the target, relative to the head's first byte. */
  targetStart = 0;
  targetEnd = 0;
  /** HTTP/1 minor version: 0 or 1. */
  minor = 1;
  #state = START;
  #at = 0;
  #methodStart = 0;
  #version = 0;
  readonly #target: Uint8Array;

  /** @param target table of the bytes that a target may contain */
  constructor(target = TARGET) {
    super();
    this.#target = target;
  }

  begin(): void {
    this.#state = START;
    this.#at = 0;
    this.#version = 0;
    this.fault = undefined;
  }

  /** Whether nothing but an empty line, or a part of one, was scanned. */
  get isEmpty(): boolean {
    return this.#state <= EMPTY_LINE_LF || (this.#state === METHOD_STATE && this.#at === this.#methodStart);
  }

  /** @returns the index after the line, {@link INCOMPLETE} or {@link REFUSED} */
  scan(bytes: Bytes, origin: number, end: number, maxTarget: number): number {
    let i = origin + this.#at;
    let state = this.#state;
    const targetBytes = this.#target;
    while (i < end) {
      const code = bytes[i] as number;
      if (state === METHOD_STATE) {
        while (i < end && METHOD[bytes[i] as number] === 1) i++;
        const start = origin + this.#methodStart;
        if (i - start > MAX_METHOD_LENGTH)
          return this.refuse('method', this.#methodStart + MAX_METHOD_LENGTH);
        if (i === end) break;
        if (bytes[i] !== SP) return this.refuse('method', i - origin);
        const method = findMethod(bytes, start, i);
        if (method === undefined) return this.refuse('method', this.#methodStart);
        this.method = method;
        i++;
        this.targetStart = i - origin;
        state = TARGET_STATE;
      } else if (state === TARGET_STATE) {
        while (i < end && targetBytes[bytes[i] as number] === 1) i++;
        if (i - origin - this.targetStart > maxTarget)
          return this.refuse('target_too_long', this.targetStart + maxTarget);
        if (i === end) break;
        this.targetEnd = i - origin;
        if (bytes[i] !== SP || this.targetEnd === this.targetStart) return this.refuse('target', i - origin);
        i++;
        state = VERSION_STATE;
      } else if (state === VERSION_STATE) {
        const at = this.#version;
        if (at === MINOR) {
          this.minor = code - ZERO;
          if (this.minor !== 0 && this.minor !== 1) return this.refuse('version', i - origin);
        } else if (code !== VERSION_END[at]) {
          return this.refuse(at > MINOR && isLineEnd(code) ? 'line_end' : 'version', i - origin);
        }
        i++;
        this.#version = at + 1;
        if (this.#version === VERSION_END.length) return i;
      } else if (state === EMPTY_LINE_LF) {
        if (code !== LF) return this.refuse('line_end', i - origin);
        i++;
        this.#methodStart = i - origin;
        state = METHOD_STATE;
      } else {
        this.#methodStart = 0;
        if (code === CR) i++;
        state = code === CR ? EMPTY_LINE_LF : METHOD_STATE;
      }
    }
    this.#at = i - origin;
    this.#state = state;
    return INCOMPLETE;
  }
}

function isLineEnd(code: number): boolean {
  return code === CR || code === LF;
}
