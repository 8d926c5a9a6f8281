import { isUtf8 } from 'node:buffer';
import { decodePercent } from './percent.js';

const [AMPERSAND, EQUALS, SPACE] = [0x26, 0x3d, 0x20];

/**
 * The names and values of a form or a query (WHATWG URL 5.1), each byte read once; undefined in place of a pair that is
 * not UTF-8. A decoder that replaces what is not would make two passwords the same one.
 */
export function* formPairs(bytes: Buffer): Generator<readonly [name: string, value: string] | undefined> {
  for (let start = 0, end; start <= bytes.length; start = end + 1) {
    end = indexOrEnd(bytes, AMPERSAND, start, bytes.length);
    if (end === start) continue;
    const equals = indexOrEnd(bytes, EQUALS, start, end);
    const name = decodeComponent(bytes, start, equals);
    const value = decodeComponent(bytes, Math.min(equals + 1, end), end);
    yield name === undefined || value === undefined ? undefined : [name, value];
  }
}

function indexOrEnd(bytes: Buffer, code: number, start: number, end: number): number {
  for (let i = start; i < end; i++) if (bytes[i] === code) return i;
  return end;
}

/** A name or value of a form; undefined when it is not UTF-8. */
function decodeComponent(bytes: Buffer, start: number, end: number): string | undefined {
  const component = decodePercent(bytes, start, end, SPACE);
  return isUtf8(component) ? component.toString() : undefined;
}
