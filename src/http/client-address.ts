import { BlockList, isIP, isIPv6 } from 'node:net';
import type { Socket } from 'node:net';
import { bytesOfAddress } from '../domain/address.js';
import { isHost } from '../domain/host.js';
import type { Client } from './head.js';

/** Trusted proxies that a request may have come through; each costs a look at the list of them. */
const MAX_PROXIES = 64;
/** IPv6 in brackets with a port or without one, or IPv4 with a port; each part has a bounded length. */
const WITH_PORT = /^(?:\[([0-9A-Fa-f:.]{2,45})\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5})$/;

/** What is read of a connection. */
export type PeerSocket = Pick<Socket, 'remoteAddress'>;

/**
 * Says who the client of a request is, from its socket and, behind a trusted proxy, from its fields; in a sentence what is
 * wrong when the proxy tells something that can't be.
 */
export type ClientReader = (socket: PeerSocket, host: string, fields: readonly string[]) => Client | string;

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
      return { address, secure, host, proxied: false, behindTrustedProxy: false, forwardedFor: address };
    return behindProxy(trusted, address, secure, host, fields);
  };
}

/** Schemes that proxies tell. Traefik tells of a WebSocket handshake with the ones of RFC 6455. */
const SECURE_BY_SCHEME: ReadonlyMap<string, boolean> = new Map([
  ['https', true],
  ['wss', true],
  ['http', false],
  ['ws', false],
]);

function behindProxy(
  trusted: BlockList,
  proxy: string,
  secure: boolean,
  host: string,
  fields: readonly string[],
): Client | string {
  const chain = lastItems(fields, 'x-forwarded-for').map(forwardedAddress);
  // The client is the last address that no trusted proxy added; what stands before it is hearsay.
  let last = chain.length;
  let address = proxy;
  while (last > 0 && contains(trusted, address) && isIP(chain[last - 1] as string) !== 0)
    address = chain[--last] as string;
  const proto = lastItems(fields, 'x-forwarded-proto').at(-1);
  const receivedSecure = proto === undefined ? secure : SECURE_BY_SCHEME.get(proto.toLowerCase());
  if (receivedSecure === undefined) return 'the field X-Forwarded-Proto is neither http nor https';
  const asked = lastItems(fields, 'x-forwarded-host').at(-1);
  if (asked !== undefined && !isHost(asked))
    return 'the field X-Forwarded-Host is not a host name with an optional port';
  return {
    address,
    secure: receivedSecure,
    host: asked ?? host,
    proxied: address !== proxy,
    behindTrustedProxy: true,
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
  if (!address.startsWith('::ffff:')) return address;
  const rest = address.slice(7);
  // Proxies may write the last 32 bits in either form (RFC 5952 5).
  return rest.includes(':') ? bytesOfAddress(address).join('.') || address : rest;
}

/** An entry with a port, as some proxies write it: `1.2.3.4:5678`, `[2001:db8::1]:443`. */
function forwardedAddress(entry: string): string {
  const [, bracketed, plain] = WITH_PORT.exec(entry) ?? [];
  return plainAddress(bracketed ?? plain ?? entry);
}

/** The items that are not empty among the last {@link MAX_PROXIES} of a list field, in the order given. */
function lastItems(fields: readonly string[], name: string): string[] {
  const items: string[] = [];
  let left = MAX_PROXIES;
  for (let i = fields.length - 2; i >= 0 && left > 0; i -= 2) {
    if (fields[i]?.toLowerCase() !== name) continue;
    const value = fields[i + 1] as string;
    for (let end = value.length, comma; end >= 0 && left > 0; end = comma, left--) {
      comma = end === 0 ? -1 : value.lastIndexOf(',', end - 1);
      const item = value.slice(comma + 1, end).trim();
      if (item !== '') items.unshift(item);
    }
  }
  return items;
}
