import { type Bytes, bytesOf, CR, LF, MINOR, NINE, SP, TEXT, VERSION, ZERO } from './bytes.js';
import { INCOMPLETE, LineScanner } from './line-scanner.js';

const VERSION_STATE = 0;
const STATUS_STATE = 1;
const AFTER_STATUS = 2;
const REASON_STATE = 3;
const LINE_LF = 4;

/** The bytes before the status. */
const VERSION_START = bytesOf(`${VERSION} `);
const DIGITS = 3;

/**
 * Parses a status line. It resumes like {@link FieldLines}. The space after the status is optional.
 */
export class StatusLine extends LineScanner {
  status = 0;
  /** Start and end of the reason, relative to the head's first byte. */
  reasonStart = 0;
  reasonEnd = 0;
  /** HTTP/1 minor version: 0 or 1. */
  minor = 1;
  #state = VERSION_STATE;
  #at = 0;

  begin(): void {
    this.#state = VERSION_STATE;
    this.#at = 0;
    this.status = 0;
    this.fault = undefined;
  }

  /** @returns the index after the line, {@link INCOMPLETE} or {@link REFUSED} */
  scan(bytes: Bytes, origin: number, end: number): number {
    let i = origin + this.#at;
    let state = this.#state;
    while (i < end) {
      const code = bytes[i] as number;
      const at = i - origin;
      if (state === REASON_STATE) {
        while (i < end && TEXT[bytes[i] as number] === 1) i++;
        if (i === end) break;
        this.reasonEnd = i - origin;
        if (bytes[i] !== CR) return this.refuse(bytes[i] === LF ? 'line_end' : 'reason', i - origin);
        i++;
        state = LINE_LF;
      } else if (state === VERSION_STATE) {
        if (at === MINOR) {
          this.minor = code - ZERO;
          if (this.minor !== 0 && this.minor !== 1) return this.refuse('version', at);
        } else if (code !== VERSION_START[at]) return this.refuse('version', at);
        i++;
        if (at + 1 === VERSION_START.length) state = STATUS_STATE;
      } else if (state === STATUS_STATE) {
        if (code < ZERO || code > NINE) return this.refuse('status', at);
        this.status = this.status * 10 + code - ZERO;
        i++;
        if (at + 1 === VERSION_START.length + DIGITS) {
          if (this.status < 100 || this.status > 599) return this.refuse('status', VERSION_START.length);
          state = AFTER_STATUS;
        }
      } else if (state === AFTER_STATUS) {
        if (code !== SP && code !== CR) return this.refuse(code === LF ? 'line_end' : 'status', at);
        i++;
        this.reasonStart = code === SP ? at + 1 : at;
        this.reasonEnd = at;
        state = code === SP ? REASON_STATE : LINE_LF;
      } else {
        if (code !== LF) return this.refuse('line_end', at);
        return i + 1;
      }
    }
    this.#at = i - origin;
    this.#state = state;
    return INCOMPLETE;
  }
}
