import { isIP } from 'node:net';
import { z } from 'zod';
import { text, whole } from './units.js';

const host = text.describe('An address to listen on');
const port = whole(0, 65_535).describe('A port; 0 picks a free one');

const listener = (defaultHost: string, defaultPort: number) => ({
  host: host.default(defaultHost),
  port: port.default(defaultPort),
});

const tls = z.strictObject({
  cert: text.describe('File with the certificate chain (PEM)'),
  key: text.describe('File with the private key (PEM)'),
  client_ca: text.nullable().default(null).describe('File with the authorities of client certificates (PEM)'),
});

const proxyAddress = text.refine(isAddressRange, 'expected an address or a range like 10.0.0.0/8');

function isAddressRange(value: string): boolean {
  const [address = '', bits, ...rest] = value.split('/');
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

/** The public listener. */
export const listenSchema = z.strictObject({
  ...listener('0.0.0.0', 8080),
  tls: tls.nullable().default(null).describe('TLS to clients, and with it HTTP/2; without it HTTP/1.1'),
  trusted_proxies: z
    .array(proxyAddress)
    .default([])
    .describe('Proxies whose X-Forwarded-* fields are believed'),
});

/** The listener for operators. */
export const adminSchema = z.strictObject(listener('127.0.0.1', 9901));

/** The listener for proxies that ask first. */
export const decisionSchema = z.strictObject(listener('127.0.0.1', 9902));
