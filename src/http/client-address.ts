import { BlockList, isIP, isIPv6 } from 'node:net';
import type { Socket } from 'node:net';
import type { Client } from './head.js';

/** What is read of a connection. */
export type PeerSocket = Pick<Socket, 'remoteAddress'>;

/** Says who the client of a request is, from its socket and, behind a trusted proxy, from its fields. */
export type ClientReader = (socket: PeerSocket, host: string, fields: readonly string[]) => Client;

/**
 * Makes a {@link ClientReader}.
 *
 * @param trustedProxies addresses and CIDR ranges of proxies whose `X-Forwarded-*` fields are believed;
 *   from anyone else these fields are ignored.
 * @throws TypeError when an entry is neither an address nor a range
 */
export function createClientReader(trustedProxies: readonly string[]): ClientReader {
  const trusted = trustedProxies.length === 0 ? undefined : toBlockList(trustedProxies);
  return (socket, host, fields) => {
    const address = plainAddress(socket.remoteAddress ?? '');
    const secure = 'encrypted' in socket;
    if (trusted === undefined || !contains(trusted, address))
      return { address, secure, host, proxied: false, forwardedFor: address };
    return behindProxy(trusted, address, secure, host, fields);
  };
}

function behindProxy(
  trusted: BlockList,
  proxy: string,
  secure: boolean,
  host: string,
  fields: readonly string[],
): Client {
  const chain = listOf(fields, 'x-forwarded-for').map(plainAddress);
  // The client is the last address that no trusted proxy added; what stands before it is hearsay.
  let last = chain.length;
  let address = proxy;
  while (last > 0 && contains(trusted, address) && isIP(chain[last - 1] ?? '') !== 0)
    address = chain[--last] as string;
  const proto = listOf(fields, 'x-forwarded-proto').at(-1);
  return {
    address,
    secure: proto === undefined ? secure : proto.toLowerCase() === 'https',
    host: listOf(fields, 'x-forwarded-host').at(-1) ?? host,
    proxied: address !== proxy,
    forwardedFor: [...chain.slice(last), proxy].join(', '),
  };
}

function toBlockList(entries: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

function contains(list: BlockList, address: string): boolean {
  return list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

/** IPv4 in its own form even where a dual-stack socket shows it as `::ffff:1.2.3.4`. */
function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}

function listOf(fields: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]?.toLowerCase() !== name) continue;
    for (const item of (fields[i + 1] ?? '').split(',')) if (item.trim() !== '') values.push(item.trim());
  }
  return values;
}
