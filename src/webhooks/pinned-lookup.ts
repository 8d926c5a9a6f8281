import { lookup as resolveHost } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { kindOfAddress } from './address-kind.js';

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
