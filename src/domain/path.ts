import { lookalikes } from './lookalikes.js';

/** Readings of one path: what a strict reader sees first, then every lenient one. */
export interface Readings {
  readonly literal: string;
  readonly lenient: readonly string[];
  /** A reader sees an encoded slash or an empty inner segment: only a route's `*` part may hold these. */
  readonly needsWildcard: boolean;
}

/**
 * Every way in which an upstream might read a path that is not plain.
 *
 * Escapes of ASCII characters are decoded once (RFC 3986 6.2.2.2; `%25` stays, so nothing is decoded twice).
 * Lenient readers take `%2F` as a separator, drop `;parameters`, merge slashes or drop the last one, and take characters
 * for others that they resemble (`lookalikes`), in any combination.
 * Returns a sentence when the path is refused whatever the routes are.
 */
export function readings(path: string): Readings | string {
  const literal = decodeAscii(path);
  const others = lookalikes(literal);
  if (typeof others === 'string') return others;
  const seen = new Set<string>();
  let needsWildcard = literal.includes('//');
  for (const text of [literal, ...others]) {
    if (hasDotSegment(text)) return 'the path has a "." or ".." segment';
    const encodedSlash = text.includes('%2F');
    const parameters = text.includes(';');
    // Whether parameters end at an encoded slash differs between readers, so the two never go together.
    if (encodedSlash && parameters) return 'the path has both an encoded slash and ";"';
    needsWildcard ||= encodedSlash;
    for (const slashes of encodedSlash ? [text, decodeSlashes(text)] : [text])
      for (const reading of parameters ? [slashes, slashes.replace(/;[^/]*/g, '')] : [slashes])
        addMerged(seen, reading);
  }
  seen.delete(literal);
  return { literal, lenient: [...seen], needsWildcard };
}

/** Behind an empty segment only `*` fits, so dropping the last slash without merging leads nowhere else. */
function addMerged(seen: Set<string>, reading: string): void {
  const merged = reading.replace(/\/{2,}/g, '/');
  seen.add(reading);
  seen.add(merged);
  seen.add(withoutTrailingSlash(merged));
}

function hasDotSegment(text: string): boolean {
  return text.includes('.') && /(?:^|\/)\.{1,2}(?:[/;]|$)/.test(decodeSlashes(text));
}

/** Escapes that {@link decodeAscii} changes, and what becomes of them. */
const DECODED = new Map(
  Array.from({ length: 256 }, (_, code) => {
    const escape = `%${code.toString(16).toUpperCase().padStart(2, '0')}`;
    const stays = code >= 0x80 || code === 0x25 || code === 0x2f;
    return [escape, stays ? escape : String.fromCharCode(code)] as const;
  }),
);
const CHANGING_ESCAPES = /%(?!2[5F]|[89A-F][0-9A-F])[0-9A-Fa-f]{2}/g;

/** Decodes `%XX` of ASCII characters other than `%` and `/`; the rest stays, in upper case. */
export function decodeAscii(path: string): string {
  return path.replace(
    CHANGING_ESCAPES,
    (escape) => DECODED.get(escape) ?? DECODED.get(escape.toUpperCase()) ?? escape,
  );
}

/** Takes `%2F`, as {@link decodeAscii} leaves it, as a separator. */
export function decodeSlashes(path: string): string {
  return path.replaceAll('%2F', '/');
}

function withoutTrailingSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

/** The segment of a path at an index, counted from 0 behind the leading slash; undefined past its end. */
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

/**
 * A path or a request target without its first segments; `/` stands for nothing left. Segments end at a literal slash, of
 * which decoding makes none and takes none away, so that the same ones are cut off however a path is escaped.
 */
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
