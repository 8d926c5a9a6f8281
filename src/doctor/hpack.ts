import type { Field } from './message.js';

/** Statuses of the static table from index 8 (RFC 7541 appendix A). */
const INDEXED_STATUSES: readonly number[] = [200, 204, 206, 304, 400, 404, 500];
const FIRST_STATUS = 8;
/** Huffman codes of the digits (RFC 7541 appendix B). */
const DIGITS: readonly string[] = [
  '00000', '00001', '00010', '011001', '011010', '011011', '011100', '011101', '011110', '011111',
]; // prettier-ignore

const MAX_PREFIX = 127;

/** Encodes fields as they are, without a table or Huffman, so that every byte can be sent. */
export function encodeFields(fields: readonly Field[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1');
  const length: number[] = [];
  if (bytes.length < MAX_PREFIX) length.push(bytes.length);
  else {
    length.push(MAX_PREFIX);
    let rest = bytes.length - MAX_PREFIX;
    for (; rest > MAX_PREFIX; rest >>= 7) length.push((rest & MAX_PREFIX) | 0x80);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** Reads `:status`, which begins every block of an answer; 0 when it is not there. */
export function decodeStatus(block: Buffer): number {
  let at = 0;
  // Updates of the table's size come first.
  while (((block[at] ?? 0) & 0xe0) === 0x20) at += 1;
  const first = block[at] ?? 0;
  if (first & 0x80) return INDEXED_STATUSES[(first & MAX_PREFIX) - FIRST_STATUS] ?? 0;
  const head = block[at + 1] ?? 0;
  const value = block.subarray(at + 2, at + 2 + (head & MAX_PREFIX));
  return Number(head & 0x80 ? digitsOf(value) : value.toString('latin1')) || 0;
}

function digitsOf(coded: Buffer): string {
  let bits = [...coded].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  let digits = '';
  while (digits.length < 3) {
    const digit = DIGITS.findIndex((code) => bits.startsWith(code));
    if (digit < 0) return '';
    digits += digit;
    bits = bits.slice((DIGITS[digit] ?? '').length);
  }
  return digits;
}
