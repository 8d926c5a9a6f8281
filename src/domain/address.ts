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

/** Bytes of the narrowest network that one IPv6 client may own: a /64 (RFC 6177). */
const IPV6_CLIENT = 8;

/**
 * Returns the network of a client: an IPv4 address itself, the prefix of an IPv6 one; the text
 * itself for anything else.
 *
 * @param prefix of an IPv6 address, bytes
 */
export function networkOf(address: string, prefix = IPV6_CLIENT): string {
  const bytes = bytesOfAddress(address);
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.length === 0) return address;
  return `${Buffer.from(bytes.slice(0, prefix)).toString('hex')}/${8 * prefix}`;
}

function bytesOfGroups(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (group.includes('.')) return group.split('.').map(Number);
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
}
