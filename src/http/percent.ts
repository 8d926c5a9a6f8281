import { hexValue } from '../domain/path.js';

const [PERCENT, PLUS] = [0x25, 0x2b];

/**
 * Decodes percent-encoded bytes; a `%` without two hexadecimal digits stands for itself.
 * @param plus what `+` stands for: itself, or a space in a form
 */
export function decodePercent(bytes: Buffer, start: number, end: number, plus: number = PLUS): Buffer {
  const decoded = Buffer.allocUnsafe(end - start);
  let length = 0;
  for (let i = start; i < end; i++) {
    const code = bytes[i] as number;
    const escaped = code === PERCENT && i + 2 < end ? byteAt(bytes, i + 1) : NaN;
    if (Number.isNaN(escaped)) decoded[length++] = code === PLUS ? plus : code;
    else {
      decoded[length++] = escaped;
      i += 2;
    }
  }
  return decoded.subarray(0, length);
}

function byteAt(bytes: Buffer, at: number): number {
  return hexValue(bytes[at] as number) * 16 + hexValue(bytes[at + 1] as number);
}
