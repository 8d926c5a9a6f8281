import { isUtf8 } from 'node:buffer';
import { hexValue } from '../domain/path.js';

const [AMPERSAND, EQUALS, PERCENT, PLUS, SPACE] = [0x26, 0x3d, 0x25, 0x2b, 0x20];

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

/** A name or value of a form; undefined when it is not UTF-8. A `%` without two digits behind it stands for itself. */
function decodeComponent(bytes: Buffer, start: number, end: number): string | undefined {
  const decoded = Buffer.allocUnsafe(end - start);
  let length = 0;
  for (let i = start; i < end; i++) {
    const code = bytes[i] as number;
    const escaped = code === PERCENT && i + 2 < end ? byteAt(bytes, i + 1) : NaN;
    if (Number.isNaN(escaped)) decoded[length++] = code === PLUS ? SPACE : code;
    else {
      decoded[length++] = escaped;
      i += 2;
    }
  }
  const component = decoded.subarray(0, length);
  return isUtf8(component) ? component.toString() : undefined;
}

/** The byte that two hexadecimal digits stand for; NaN when they are none. */
function byteAt(bytes: Buffer, at: number): number {
  return hexValue(bytes[at] as number) * 16 + hexValue(bytes[at + 1] as number);
}
