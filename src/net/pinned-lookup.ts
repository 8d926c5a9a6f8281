import { lookup as resolveHost } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { type AddressRange, bytesOfAddress, hostOf, isInRanges, parseRange } from '../util/addresses.js';

interface HostAddress {
  readonly address: string;
  readonly family: number;
}

export type Resolve = (host: string) => Promise<readonly HostAddress[]>;

/** Thrown when the address of an endpoint must not be connected to. */
export class AddressRefused extends Error {}

/** Resolves with the system resolver: its hosts file, then DNS. */
export const systemResolve: Resolve = async (host) => resolveHost(host, { all: true });

/**
 * Creates a `lookup` that refuses a name if any of its addresses must not be connected to. The connection
 * gets exactly the addresses that were checked, so a second DNS response cannot replace them.
 */
export function pinnedLookup(resolve: Resolve, allowPrivate: boolean): LookupFunction {
  return (host, options, callback) => {
    resolve(host).then(
      (found) => {
        try {
          for (const { address } of found) refuseAddress(address, allowPrivate);
          const [first] = found;
          if (first === undefined) throw new AddressRefused('the host name has no address');
          if (options.all === true) callback(null, [...found]);
          else callback(null, first.address, first.family);
        } catch (error) {
          callback(error as Error, '');
        }
      },
      (error: unknown) => callback(error as Error, ''),
    );
  };
}

/** Checks a host that is an IP literal, because no look-up happens for it. @throws AddressRefused */
export function refuseLiteral(hostname: string, allowPrivate: boolean): void {
  const host = hostOf({ hostname });
  if (isIP(host) !== 0) refuseAddress(host, allowPrivate);
}

function refuseAddress(address: string, allowPrivate: boolean): void {
  const kind = kindOfAddress(address);
  if (kind === 'reserved') throw new AddressRefused(`the address ${address} is reserved`);
  if (kind === 'private' && !allowPrivate)
    throw new AddressRefused(`the address ${address} is private; allow_private allows it`);
}

export type AddressKind = 'public' | 'private' | 'reserved';

/** Loopback, private networks, and a provider's shared address space (RFC 1918, 4193, 6598, 2544). */
const PRIVATE = ranges(
  '127.0.0.0/8 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 198.18.0.0/15 ::1 fc00::/7',
);

/**
 * Addresses that are not hosts (RFC 6890 and the IANA registries): also link-local, where most clouds have
 * their metadata service, and IPv6 that carries IPv4 through a relay (6to4, Teredo).
 */
const RESERVED = ranges(
  '0.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.51.100.0/24 203.0.113.0/24',
  '224.0.0.0/4 240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20',
  // Metadata services at other addresses: Alibaba Cloud, Azure, AWS, Google Cloud.
  '100.100.100.200/32 168.63.129.16/32 fd00:ec2::/32 fd20:ce::254/128',
);

/** The only IPv6 range that is routed between networks. */
const GLOBAL_IPV6 = ranges('2000::/3');
/** IPv4 behind a translator (RFC 6052). The other NAT64 prefix is for use inside one network. */
const NAT64 = ranges('64:ff9b::/96');

/** An IPv4 address embedded in IPv6 is classified as that IPv4 address. */
export function kindOfAddress(address: string): AddressKind {
  const bytes = bytesOfAddress(address);
  if (bytes.length === 0 || address.includes('%')) return 'reserved';
  if (isInRanges(NAT64, address)) return kindOfAddress(bytes.slice(12).join('.'));
  if (isInRanges(RESERVED, address)) return 'reserved';
  if (isInRanges(PRIVATE, address)) return 'private';
  return bytes.length === 4 || isInRanges(GLOBAL_IPV6, address) ? 'public' : 'reserved';
}

/** @param lists ranges, separated by spaces */
function ranges(...lists: readonly string[]): AddressRange[] {
  return lists.flatMap((list) => list.split(' ')).map((text) => parseRange(text) as AddressRange);
}
