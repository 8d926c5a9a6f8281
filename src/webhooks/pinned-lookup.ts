import { lookup as resolveHost } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { bytesOfAddress } from '../domain/address.js';
import { type AddressRange, isInRanges, parseRange } from '../domain/address-range.js';

/** An address, as `dns.lookup` gives it. */
interface HostAddress {
  readonly address: string;
  readonly family: number;
}

/** Finds the addresses of a name. */
export type Resolve = (host: string) => Promise<readonly HostAddress[]>;

/** The address of an endpoint must not be connected to. */
export class AddressRefused extends Error {}

/** Asks the system: its hosts file, then DNS. */
export const systemResolve: Resolve = async (host) => resolveHost(host, { all: true });

/**
 * Makes the look-up of a connection. It refuses a name with any address that must not be connected to, and gives the
 * connection the very addresses that it judged: no second answer of DNS comes in between.
 */
export function pinnedLookup(resolve: Resolve, allowPrivate: boolean): LookupFunction {
  return (host, options, callback) => {
    resolve(host).then(
      (found) => {
        try {
          for (const { address } of found) refuseAddress(address, allowPrivate);
          const [first] = found;
          if (first === undefined) throw new AddressRefused('the name has no address');
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

/** Judges a host that is an address: nothing looks it up. @throws AddressRefused */
export function refuseLiteral(hostname: string, allowPrivate: boolean): void {
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) refuseAddress(host, allowPrivate);
}

function refuseAddress(address: string, allowPrivate: boolean): void {
  const kind = kindOfAddress(address);
  if (kind === 'reserved') throw new AddressRefused(`the address ${address} is reserved`);
  if (kind === 'private' && !allowPrivate)
    throw new AddressRefused(`the address ${address} is private; allow_private allows it`);
}

/** Whether an address may be connected to: always, if private ones are allowed, or never. */
export type AddressKind = 'public' | 'private' | 'reserved';

/** Loopback, networks of one organization, and shared ones of a provider (RFC 1918, 4193, 6598, 2544). */
const PRIVATE = ranges(
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '198.18.0.0/15',
  '::1',
  'fc00::/7',
);

/**
 * What is no host: this network, link-local (metadata services of clouds are there), multicast, documentation, broadcast
 * (RFC 6890 and the IANA registries), and IPv6 that carries IPv4 through a relay of somebody else: 6to4 and Teredo.
 */
const RESERVED = ranges(
  '0.0.0.0/8',
  '169.254.0.0/16',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
);

/** The only IPv6 that is routed between networks. */
const GLOBAL_IPV6 = ranges('2000::/3');
/** IPv4 behind a translator (RFC 6052); the other NAT64 prefix is for use inside one network. */
const NAT64 = ranges('64:ff9b::/96'); // prettier-ignore

/** What an IP address is. One of IPv4 within IPv6 is what its IPv4 address is. */
export function kindOfAddress(address: string): AddressKind {
  const bytes = bytesOfAddress(address);
  if (bytes.length === 0 || address.includes('%')) return 'reserved';
  if (isInRanges(NAT64, address)) return kindOfAddress(bytes.slice(12).join('.'));
  if (isInRanges(PRIVATE, address)) return 'private';
  if (isInRanges(RESERVED, address)) return 'reserved';
  return bytes.length === 4 || isInRanges(GLOBAL_IPV6, address) ? 'public' : 'reserved';
}

function ranges(...texts: readonly string[]): AddressRange[] {
  return texts.map((text) => {
    const range = parseRange(text);
    if (range === undefined) throw new Error(`${text} is no range`);
    return range;
  });
}
