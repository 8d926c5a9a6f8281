import { bytesOfAddress } from './address.js';

/** An IP address or a CIDR range, as a bit prefix. */
export interface AddressRange {
  /** 4 or 16 bytes. */
  readonly bytes: readonly number[];
  /** Number of leading bits that must match. */
  readonly bits: number;
}

/** Length in bits of the IPv6 prefix of an IPv4-mapped address (RFC 4291 2.5.5.2). */
const MAPPED_BITS = 96;

/**
 * Parses an address or a range such as `10.0.0.0/8`. IPv4-mapped IPv6 becomes IPv4.
 *
 * Returns undefined for anything else and for an address with a zone. A range with bits set beyond
 * its prefix is also rejected: `10.1.2.3/8` may have been meant as a single address.
 */
export function parseRange(text: string): AddressRange | undefined {
  const [address = '', prefix, ...rest] = text.split('/');
  const bytes = address.includes('%') ? [] : bytesOfAddress(address);
  if (bytes.length === 0 || rest.length > 0) return undefined;
  const isMapped = bytes.length === 4 && address.includes(':');
  if (prefix === undefined) return { bytes, bits: bytes.length * 8 };
  if (!/^(?:0|[1-9]\d{0,2})$/.test(prefix)) return undefined;
  const bits = Number(prefix) - (isMapped ? MAPPED_BITS : 0);
  if (bits < 0 || bits > bytes.length * 8 || !isZeroFrom(bytes, bits)) return undefined;
  return { bytes, bits };
}

/** Whether an address is in any of the ranges; text that is not an address is in none. */
export function isInRanges(ranges: readonly AddressRange[], address: string): boolean {
  const bytes = bytesOfAddress(address);
  return bytes.length > 0 && ranges.some((range) => isIn(range, bytes));
}

/** Whether one of the ranges contains the given range. */
export function includesRanges(
  ranges: readonly (AddressRange | undefined)[],
  { bytes, bits }: AddressRange,
): boolean {
  return ranges.some((range) => range !== undefined && range.bits <= bits && isIn(range, bytes));
}

function isIn({ bytes, bits }: AddressRange, address: readonly number[]): boolean {
  if (address.length !== bytes.length) return false;
  const whole = bits >> 3;
  for (let i = 0; i < whole; i++) if (address[i] !== bytes[i]) return false;
  const rest = bits & 7;
  return rest === 0 || ((address[whole] ?? 0) ^ (bytes[whole] ?? 0)) >> (8 - rest) === 0;
}

function isZeroFrom(bytes: readonly number[], bits: number): boolean {
  return bytes.every((byte, i) => (byte & (0xff >> Math.min(8, Math.max(0, bits - i * 8)))) === 0);
}
