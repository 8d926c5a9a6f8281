import { isIPv4, isIPv6 } from 'node:net';

/**
 * Returns the bytes of an IP address: 4 or 16; none if the text is not an address.
 *
 * An IPv4-mapped IPv6 address (RFC 4291 2.5.5.2) yields 4 bytes.
 */
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

/**
 * Prefix lengths of the networks that an IPv6 client may own, in bytes: a /64, and for its site a /56
 * or a /48 (RFC 6177).
 */
const IPV6_PREFIXES = [8, 7, 6] as const;

/**
 * Returns the networks that a client may own, narrowest first: three for an IPv6 address, else the
 * address or text itself.
 */
export function networksOf(address: string): string[] {
  const bytes = bytesOfAddress(address);
  if (bytes.length === 4) return [bytes.join('.')];
  if (bytes.length === 0) return [address];
  const hex = Buffer.from(bytes).toString('hex');
  return IPV6_PREFIXES.map((length) => `${hex.slice(0, 2 * length)}/${8 * length}`);
}

/** Returns the narrowest network that a client may own. */
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
