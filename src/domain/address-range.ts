import { bytesOfAddress } from './address.js';

/** An address or a CIDR range, as bits to compare. */
export interface AddressRange {
  /** 4 or 16 bytes. */
  readonly bytes: readonly number[];
  /** How many leading bits have to be the same. */
  readonly bits: number;
}

/** Bits of IPv6 in front of an IPv4 address that is mapped to it (RFC 4291 2.5.5.2). */
const MAPPED_BITS = 96;

/**
 * Reads an address or a range like `10.0.0.0/8`; undefined for anything else, for an address with a zone, and for a range
 * whose address goes beyond its prefix: `10.1.2.3/8` may have been meant as one address. IPv4 mapped to IPv6 is IPv4.
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

/** Whether an address is in one of some ranges; what is no address is in none. */
export function isInRanges(ranges: readonly AddressRange[], address: string): boolean {
  const bytes = bytesOfAddress(address);
  return bytes.length > 0 && ranges.some((range) => isIn(range, bytes));
}

/** Whether a range lies in one of some others. */
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
