import { isIP } from 'node:net';
import { z } from 'zod';
import { filePath, text, integer } from './units.js';

/** An address, or a name of this machine. */
const host = text
  .refine(
    (value) => isIP(value) !== 0 || /^[A-Za-z0-9._-]+$/.test(value),
    'expected an address like 127.0.0.1 or ::1',
  )
  .describe('An address to listen on');
const port = integer(0, 65_535).describe('A port; 0 picks a free one');

const HOST_NAME = /^[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?$/;

const listener = (defaultHost: string, defaultPort: number) => ({
  host: host.default(defaultHost),
  port: port.default(defaultPort),
});

const tls = z.strictObject({
  cert: filePath.describe('File with the certificate chain (PEM)'),
  key: filePath.describe('File with the private key (PEM)'),
  client_ca: filePath
    .nullable()
    .default(null)
    .describe('File with the authorities of client certificates (PEM)')
    .meta({ restart: 'presence' }),
});

const proxyAddress = text.refine(isAddressRange, 'expected an address or a range like 10.0.0.0/8');

function isAddressRange(value: string): boolean {
  const [address = '', bits, ...rest] = value.split('/');
  // A zone (RFC 4007) is a name of this machine's interfaces; no range has one.
  const family = address.includes('%') ? 0 : isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

export const listenSchema = z.strictObject({
  host: host.default('0.0.0.0').meta({ restart: true }),
  port: port.default(8080).meta({ restart: true }),
  tls: tls
    .nullable()
    .default(null)
    .describe('TLS to clients, and with it HTTP/2; without it HTTP/1.1')
    .meta({ restart: 'presence', example: '{ cert: tls.crt, key: tls.key }' }),
  trusted_proxies: z
    .array(proxyAddress)
    .default([])
    .describe('Proxies whose X-Forwarded-* fields are trusted')
    .meta({ example: '[10.0.0.0/8]' }),
});

export const adminSchema = z.strictObject({
  ...listener('127.0.0.1', 9901),
  hosts: z
    .array(text.regex(HOST_NAME, 'expected a host name without a port: latchkey.example.com'))
    .default([])
    .describe(
      'Public names of this port; addresses, localhost and names outside public DNS are always accepted',
    ),
});

/** The listeners for proxies that ask first. */
export const decisionSchema = z.strictObject({
  ...listener('127.0.0.1', 9902),
  grpc: z
    .strictObject(listener('127.0.0.1', 9903))
    .nullable()
    .default(null)
    .describe(
      'A listener for Envoy, which asks by gRPC (envoy.service.auth.v3.Authorization/Check); off unless present',
    )
    .meta({ example: '{ port: 9903 }' }),
});
