import { lookalikes } from '../util/lookalikes.js';

/** The readings of a path: the strict reader's first, then those of lenient readers. */
export interface Readings {
  readonly literal: string;
  readonly lenient: readonly string[];
  /** Some reader sees an encoded slash or an empty inner segment; only a route's `*` may match these. */
  readonly needsWildcard: boolean;
}

const [PERCENT, SLASH, QUESTION] = [0x25, 0x2f, 0x3f];

export interface Target {
  readonly path: string;
  readonly query: string;
  /**
   * Null when there is only one: no escape, no `;`, `{`, `|` or `}`, no empty segment, no segment that starts
   * with a dot, no trailing slash.
   */
  readonly readings: Readings | null;
}

/**
 * Validates a request target, once: whatever two programs could read differently is refused, or must mean the
 * same in every reading. WHATWG `URL` never parses a target: it loses the first segment of `//a/b`.
 * @returns its parts, or a sentence that says what is wrong with it
 */
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

/**
 * Returns every way in which an upstream might read a path that is not plain. Escapes of ASCII characters are
 * decoded once (RFC 3986 6.2.2.2). Lenient readers take `%2F` as a separator, drop `;parameters`, end the
 * path at `%3F` or `%23`, merge slashes, drop the trailing one, take look-alikes (`lookalikes`), or all of
 * it. Express and Koa see the path as sent ({@link asSent}).
 * @returns the readings, or a sentence if the path is refused regardless of the routes
 */
export function readings(path: string): Readings | string {
  const literal = decodeAscii(path);
  const others = lookalikes(literal);
  if (typeof others === 'string') return others;
  const seen = new Set<string>();
  let needsWildcard = literal.includes('//');
  for (const text of [literal, ...others].flatMap(untilQuery)) {
    if (hasDotSegment(text)) return 'the path has a "." or ".." segment';
    const encodedSlash = text.includes('%2F');
    // Readers differ on whether parameters end at an encoded slash, so a path cannot have both.
    if (encodedSlash && text.includes(';')) return 'the path has both an encoded slash and ";"';
    needsWildcard ||= encodedSlash;
    addLenient(seen, text);
    if (encodedSlash) addLenient(seen, decodeSlashes(text));
  }
  addLenient(seen, asSent(path));
  seen.delete(literal);
  return { literal, lenient: [...seen], needsWildcard };
}

/** Returns a path, and its part before an encoded `?` or `#`, where Apache with PHP-FPM cuts it. */
function untilQuery(text: string): string[] {
  const end = text.search(/[?#]/);
  return end < 0 ? [text] : [text, text.slice(0, end)];
}

/** Returns a path without parameters as Tomcat, Python's `urlparse` and Fastify 4 cut them. */
function withoutParameters(text: string): string[] {
  const first = text.indexOf(';');
  const ofLast = text.indexOf(';', text.lastIndexOf('/'));
  const kept = ofLast < 0 ? text : text.slice(0, ofLast);
  return [text.replace(/;[^/]*/g, ''), kept, text.slice(0, first)];
}

function addLenient(seen: Set<string>, text: string): void {
  addMerged(seen, text);
  if (text.includes(';')) for (const reading of withoutParameters(text)) addMerged(seen, reading);
}

/**
 * An unmerged reading needs no variant without its trailing slash: only `*` matches after an empty segment.
 */
function addMerged(seen: Set<string>, reading: string): void {
  const merged = reading.replace(/\/{2,}/g, '/');
  seen.add(reading);
  seen.add(merged);
  seen.add(withoutTrailingSlash(merged));
}

function hasDotSegment(text: string): boolean {
  return text.includes('.') && /(?:^|\/)\.{1,2}(?:[/;]|$)/.test(decodeSlashes(text));
}

/** Decodes the escapes of ASCII characters other than `%` and `/`; all others become upper case. */
export function decodeAscii(path: string): string {
  return decodeEach(path, false);
}

function asSent(path: string): string {
  return decodeEach(path, true);
}

function decodeEach(path: string, keepsSpelling: boolean): string {
  const first = path.indexOf('%');
  if (first < 0) return path;
  // Visits each character once: a callback per escape took milliseconds for 64 KiB of them.
  const decoded = new Uint16Array(path.length - first);
  let end = 0;
  for (let i = first; i < path.length; i++) {
    const code = path.charCodeAt(i);
    const value = code === PERCENT ? escapedAt(path, i) : NaN;
    if (value < 0x80 && value !== PERCENT && value !== SLASH && !(keepsSpelling && NEEDS_NO_ESCAPE[value])) {
      decoded[end++] = value;
      i += 2;
    } else if (Number.isNaN(value) || keepsSpelling) decoded[end++] = code;
    else {
      decoded[end++] = PERCENT;
      decoded[end++] = upperHex(value >> 4);
      decoded[end++] = upperHex(value & 0xf);
      i += 2;
    }
  }
  return path.slice(0, first) + textOf(decoded, end);
}

/** For each ASCII character, whether a path may contain it as it is (`pchar`, RFC 3986 3.3). */
const NEEDS_NO_ESCAPE = Array.from({ length: 0x80 }, (_, code) =>
  /[\w.~!$&'()*+,;=:@-]/.test(String.fromCharCode(code)),
);

/** Returns the value of the two hexadecimal digits after a `%`; NaN if there are none. */
function escapedAt(text: string, at: number): number {
  return 16 * hexValue(text.charCodeAt(at + 1)) + hexValue(text.charCodeAt(at + 2));
}

/** Returns the value of a hexadecimal digit; NaN for any other character. */
function hexValue(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : NaN;
}

function upperHex(digit: number): number {
  return digit < 10 ? 0x30 + digit : 0x37 + digit;
}

/** Turns `%2F`, in the form that {@link decodeAscii} returns, into a slash. */
function decodeSlashes(path: string): string {
  return path.split('%2F').join('/');
}

function textOf(codes: Uint16Array, length: number): string {
  return Buffer.from(codes.buffer, 0, 2 * length).toString('utf16le');
}

function withoutTrailingSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

export function segmentAt(path: string, index: number): string | undefined {
  let from = 1;
  for (let i = 0; i < index; i++) {
    const slash = path.indexOf('/', from);
    if (slash < 0) return undefined;
    from = slash + 1;
  }
  const end = path.indexOf('/', from);
  return path.slice(from, end < 0 ? path.length : end);
}

/** Returns a target without its first segments. Decoding adds and removes no literal slash. */
export function withoutSegments(target: string, count: number): string {
  const query = target.indexOf('?');
  const end = query < 0 ? target.length : query;
  let from = 0;
  for (let i = 0; i < count; i++) {
    const slash = target.indexOf('/', from + 1);
    if (slash < 0 || slash >= end) return `/${target.slice(end)}`;
    from = slash;
  }
  return target.slice(from);
}

/** Maximum length of a return address, in bytes. */
const MAX_PATH = 2_048;

/**
 * Returns the path of a return address if it cannot lead to another origin: browsers take `//` and `/\` for
 * the start of a host, and drop control characters anywhere.
 * @param origin of absolute URLs that are accepted too
 */
export function ownPath(address: string | undefined, origin: string | null = null): string | undefined {
  if (address === undefined || address.length > MAX_PATH) return undefined;
  const path = origin !== null && address.startsWith(`${origin}/`) ? address.slice(origin.length) : address;
  return /^\/(?!\/)[!-[\]-~]*$/.test(path) ? path : undefined;
}

/** Decodes percent-encoded bytes; a `%` without two hexadecimal digits stands for itself. */
export function decodePercent(bytes: Buffer, start = 0, end = bytes.length): Buffer {
  const decoded = Buffer.allocUnsafe(end - start);
  let length = 0;
  for (let i = start; i < end; i++) {
    const isEscape = bytes[i] === PERCENT && i + 2 < end;
    const value = isEscape ? 16 * hexValue(bytes[i + 1] as number) + hexValue(bytes[i + 2] as number) : NaN;
    if (Number.isNaN(value)) decoded[length++] = bytes[i] as number;
    else {
      decoded[length++] = value;
      i += 2;
    }
  }
  return decoded.subarray(0, length);
}
