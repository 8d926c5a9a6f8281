import { isIPv4, isIPv6 } from 'node:net';

/** Returns 4 or 16 bytes; none for other text. IPv4-mapped IPv6 (RFC 4291 2.5.5.2) yields 4. */
export function bytesOfAddress(address: string): number[] {
  const [plain = ''] = address.split('%', 1);
  if (isIPv4(plain)) return plain.split('.').map(Number);
  if (!isIPv6(plain)) return [];
  const [left = '', right] = plain.split('::');
  const head = bytesOfGroups(left);
  const tail = bytesOfGroups(right ?? '');
  const bytes = [...head, ...Array<number>(16 - head.length - tail.length).fill(0), ...tail];
  const isMapped = bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 255 && bytes[11] === 255;
  return isMapped ? bytes.slice(12) : bytes;
}

/** Bytes of the networks that an IPv6 client may own: a /64, and for its site a /56 or /48 (RFC 6177). */
const IPV6_PREFIXES = [8, 7, 6] as const;

/** Returns the networks that a client may own, narrowest first; for IPv4 and other text, only itself. */
export function networksOf(address: string): string[] {
  const bytes = bytesOfAddress(address);
  if (bytes.length === 4) return [bytes.join('.')];
  if (bytes.length === 0) return [address];
  const hex = Buffer.from(bytes).toString('hex');
  return IPV6_PREFIXES.map((length) => `${hex.slice(0, 2 * length)}/${8 * length}`);
}

export function networkOf(address: string): string {
  return networksOf(address)[0] as string;
}

function bytesOfGroups(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (group.includes('.')) return group.split('.').map(Number);
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
}

/** An IP address or a CIDR range, as a bit prefix. */
export interface AddressRange {
  readonly bytes: readonly number[];
  readonly bits: number;
}

/** Length in bits of the IPv6 prefix of an IPv4-mapped address (RFC 4291 2.5.5.2). */
const MAPPED_BITS = 96;

/**
 * Parses an address or a range such as `10.0.0.0/8`; IPv4-mapped IPv6 becomes IPv4. Returns undefined for
 * other text, an address with a zone, and bits set beyond the prefix (`10.1.2.3/8` may mean one address).
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

/** A port from 1 to 65535. No leading zeros: some parsers read them as octal, others drop them. */
const PORT = '(?:[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d\\d|655[0-2]\\d|6553[0-5])';

const HOST = new RegExp(`^(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._~-]+)(?::${PORT})?$`);

const BRACKET = 0x5b;

/** Whether a text is a host name or IP literal with an optional port (RFC 9110 7.2, RFC 3986 3.2.2). */
export function isHost(text: string): boolean {
  if (!HOST.test(text)) return false;
  return text.charCodeAt(0) !== BRACKET || isIPv6(text.slice(1, text.indexOf(']')));
}

export function portOf({ port, protocol }: Pick<URL, 'port' | 'protocol'>): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/** Returns the host of a URL as sockets take it: an IPv6 address without its brackets. */
export function hostOf({ hostname }: Pick<URL, 'hostname'>): string {
  return hostname.replace(/^\[|\]$/g, '');
}
