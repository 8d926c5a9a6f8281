import { escapedAt, type Readings, readings } from '../domain/path.js';

/**
 * Validation of the request target, done once. Whatever two programs could read differently is refused, or
 * must mean the same in every reading (`domain/path`). WHATWG `URL` never parses a target: it loses the first
 * segment of `//a/b`.
 */

const SLASH = 0x2f;
const PERCENT = 0x25;
const QUESTION = 0x3f;

export interface Target {
  readonly path: string;
  readonly query: string;
  /**
   * Null when there is only one: no escape, no `;`, `{`, `|` or `}`, no empty segment, no segment that starts
   * with a dot, no trailing slash.
   */
  readonly readings: Readings | null;
}

/** @returns its parts, or a sentence that says what is wrong with it */
export function parseTarget(target: string): Target | string {
  if (target.charCodeAt(0) !== SLASH) return 'the request target must start with "/"';
  if (target.charCodeAt(1) === SLASH) return 'the request target starts with "//"';
  let plain = true;
  let end = target.length;
  for (let i = 1; i < end; i++) {
    const code = target.charCodeAt(i);
    if (code <= 0x20 || code >= 0x7f || code === 0x23 /* # */) return forbiddenCharacter(code);
    if (code === 0x5c /* \ */) return 'the path has a backslash';
    if (code === QUESTION) {
      end = i;
    } else if (code === PERCENT) {
      const fault = checkEscape(target, i);
      if (fault !== undefined) return fault;
      plain = false;
    } else if (code === 0x3b /* ; */ || (code > 0x7a && code !== 0x7e) /* { | } */) {
      plain = false;
    } else if (target.charCodeAt(i - 1) === SLASH && (code === SLASH || code === 0x2e) /* . */) {
      plain = false;
    }
  }
  for (let i = end + 1; i < target.length; i++) {
    const code = target.charCodeAt(i);
    if (code <= 0x20 || code >= 0x7f || code === 0x23) return forbiddenCharacter(code);
  }
  if (end > 1 && target.charCodeAt(end - 1) === SLASH) plain = false;
  const path = end === target.length ? target : target.slice(0, end);
  const pathReadings = plain ? null : readings(path);
  if (typeof pathReadings === 'string') return pathReadings;
  return { path, query: end === target.length ? '' : target.slice(end + 1), readings: pathReadings };
}

function forbiddenCharacter(code: number): string {
  return code === 0x23
    ? 'the request target has a fragment ("#")'
    : `the request target has a character that must be percent-encoded (0x${code.toString(16).padStart(2, '0')})`;
}

function checkEscape(target: string, at: number): string | undefined {
  const value = escapedAt(target, at);
  if (Number.isNaN(value)) return 'the path has a "%" that is not followed by two hexadecimal digits';
  if (value < 0x20 || value === 0x7f) return 'the path has an encoded control character';
  if (value === 0x5c) return 'the path has an encoded backslash';
  return undefined;
}
