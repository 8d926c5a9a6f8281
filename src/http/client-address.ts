import { BlockList, isIP, isIPv6 } from 'node:net';
import type { Socket } from 'node:net';
import { bytesOfAddress, isHost } from '../util/addresses.js';
import type { Client } from './head.js';

/** Maximum number of trusted proxies in a chain; each costs a block-list look-up. */
const MAX_PROXIES = 64;
/** IPv6 in brackets, optionally with a port, or IPv4 with a port; each part has a bounded length. */
const WITH_PORT = /^(?:\[([0-9A-Fa-f:.]{2,45})\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5})$/;

export type PeerSocket = Pick<Socket, 'remoteAddress'>;

/** @returns the client of a request, or a sentence that says what is wrong with the proxy's fields */
export type ClientReader = (socket: PeerSocket, host: string, fields: readonly string[]) => Client | string;

/**
 * @param trustedProxies addresses and CIDR ranges whose `X-Forwarded-*` fields are trusted; from anyone else
 *   they are ignored
 * @param needsOneHost whether routes depend on the host, so that it must be clear
 * @throws TypeError when an entry is neither an address nor a range
 */
export function createClientReader(trustedProxies: readonly string[], needsOneHost = false): ClientReader {
  const trusted = trustedProxies.length === 0 ? undefined : toBlockList(trustedProxies);
  return (socket, host, fields) => {
    const address = peerAddress(socket);
    // Every request has an address: upstreams, the audit log and rate limits depend on it.
    if (address === undefined) return 'the client disconnected before its address was known';
    const secure = 'encrypted' in socket;
    if (trusted === undefined || !contains(trusted, address))
      return {
        address,
        secure,
        host,
        proxied: false,
        behindTrustedProxy: false,
        forwardedFor: address,
        port: '',
        prefix: '',
      };
    return needsOneHost && namesSeveralHosts(fields)
      ? 'the header X-Forwarded-Host names several hosts, and the routes depend on it'
      : behindProxy(trusted, address, secure, host, fields);
  };
}

export function isTrustedProxy(readClient: ClientReader, peer: PeerSocket): boolean {
  const client = readClient(peer, '', []);
  return typeof client !== 'string' && client.behindTrustedProxy;
}

const SECURE_BY_SCHEME: ReadonlyMap<string, boolean> = new Map([
  ['https', true],
  ['wss', true],
  ['http', false],
  ['ws', false],
]);

/** A path without a host, a query, or `..`: applications build links with it. Empty for `/`. */
const PREFIX = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~!$&'()*+;=:@%-]+)*$/;

const PORT = /^\d{1,5}$/;

function behindProxy(
  trusted: BlockList,
  proxy: string,
  secure: boolean,
  host: string,
  fields: readonly string[],
): Client | string {
  const chain = lastItems(fields, 'x-forwarded-for').map(forwardedAddress);
  // The client is the last address that no trusted proxy added; anything before it is unverified.
  let last = chain.length;
  let address = proxy;
  while (last > 0 && contains(trusted, address) && isIP(chain[last - 1] as string) !== 0)
    address = chain[--last] as string;
  const proto = lastItems(fields, 'x-forwarded-proto').at(-1);
  const receivedSecure = proto === undefined ? secure : SECURE_BY_SCHEME.get(proto.toLowerCase());
  if (receivedSecure === undefined) return 'the header X-Forwarded-Proto is neither http nor https';
  const asked = lastItems(fields, 'x-forwarded-host').at(-1);
  if (asked !== undefined && !isHost(asked))
    return 'the header X-Forwarded-Host is not a host name with an optional port';
  const port = lastItems(fields, 'x-forwarded-port').at(-1) ?? '';
  const prefix = lastItems(fields, 'x-forwarded-prefix').at(-1)?.replace(/\/$/, '') ?? '';
  return {
    address,
    secure: receivedSecure,
    host: asked ?? host,
    proxied: address !== proxy,
    behindTrustedProxy: true,
    forwardedFor: [...chain.slice(last), proxy].join(', '),
    // Nothing here depends on them, and some proxies pass on those of the client.
    port: PORT.test(port) ? port : '',
    prefix: PREFIX.test(prefix) ? prefix : '',
  };
}

function namesSeveralHosts(fields: readonly string[]): boolean {
  const [first, ...others] = lastItems(fields, 'x-forwarded-host').map((host) => host.toLowerCase());
  return others.some((host) => host !== first);
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

export function peerAddress({ remoteAddress = '' }: PeerSocket): string | undefined {
  return plainAddress(remoteAddress) || undefined;
}

/** Returns an IPv4 address without the `::ffff:` prefix of dual-stack sockets. */
function plainAddress(address: string): string {
  if (!address.startsWith('::ffff:')) return address;
  const rest = address.slice(7);
  return rest.includes(':') ? bytesOfAddress(address).join('.') || address : rest;
}

/** Drops the port that some proxies write: `1.2.3.4:5678`, `[2001:db8::1]:443`. */
function forwardedAddress(entry: string): string {
  const [, bracketed, plain] = WITH_PORT.exec(entry) ?? [];
  return plainAddress(bracketed ?? plain ?? entry);
}

/** Returns the non-empty items among the last {@link MAX_PROXIES} of a list field, in order. */
function lastItems(fields: readonly string[], name: string): string[] {
  const items: string[] = [];
  let left = MAX_PROXIES;
  for (let i = fields.length - 2; i >= 0 && left > 0; i -= 2) {
    const own = fields[i] as string;
    if (own.length !== name.length || own.toLowerCase() !== name) continue;
    const value = fields[i + 1] as string;
    for (let end = value.length, comma; end >= 0 && left > 0; end = comma, left--) {
      comma = end === 0 ? -1 : value.lastIndexOf(',', end - 1);
      const item = value.slice(comma + 1, end).trim();
      if (item !== '') items.unshift(item);
    }
  }
  return items;
}
