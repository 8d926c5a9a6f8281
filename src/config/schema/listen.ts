import { isIP } from 'node:net';
import { z } from 'zod';
import { filePath, hostName, integer, orNull, text, browserOrigin, timeLimit, size } from './units.js';

/** Hosts that stand for every address of the machine. */
export const EVERY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

const host = text
  .refine(
    (value) => isIP(value) !== 0 || /^[A-Za-z0-9._-]+$/.test(value),
    'expected an address like 127.0.0.1 or ::1',
  )
  .describe('The address to listen on');
const port = integer(0, 65_535).describe('The port to listen on; 0 picks a free one');

const listener = (defaultHost: string, defaultPort: number) => ({
  host: host.default(defaultHost),
  port: port.default(defaultPort),
});

const tls = z.strictObject({
  cert: filePath.describe('File with the certificate chain (PEM)'),
  key: filePath.describe('File with the private key (PEM)'),
  client_ca: orNull(filePath)
    .describe('File with the authorities of client certificates (PEM), which clients must then send')
    .meta({ restart: 'presence' }),
});

const proxyAddress = text.refine(isAddressRange, 'expected an address or a range like 10.0.0.0/8');

function isAddressRange(value: string): boolean {
  const [address = '', bits, ...rest] = value.split('/');
  // A zone (RFC 4007) names an interface of this machine; no range has one.
  const family = address.includes('%') ? 0 : isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

const PLAIN_PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~-]+)+$/;

export const listenSchema = z.strictObject({
  host: host.default('0.0.0.0').meta({ restart: true }),
  port: port.default(8080).meta({ restart: true }),
  tls: orNull(tls)
    .describe('TLS for clients')
    .meta({ restart: 'presence', example: '{ cert: tls.crt, key: tls.key }' }),
  h2c: z
    .boolean()
    .default(true)
    .describe('Whether a port without TLS accepts HTTP/2 (prior knowledge) too')
    .meta({ restart: true }),
  trusted_proxies: z
    .array(proxyAddress)
    .default([])
    .describe('Addresses and ranges of proxies whose X-Forwarded-* fields are trusted'),
  public_origins: z
    .array(browserOrigin)
    .default([])
    .describe("Origins that count as this server's own, beside Host and login.public_url"),
  ready_path: orNull(
    text.regex(PLAIN_PATH, 'expected a path like /healthz, of letters, digits, ".", "_", "~" and "-"'),
  ).describe('A path with the status 200 if requests are served, else 503, for everybody; null: none'),
});

export const adminSchema = z.strictObject({
  ...listener('127.0.0.1', 9901),
  hosts: z.array(hostName).default([]).describe('Public host names at which this port accepts requests'),
});

export const decisionSchema = z.strictObject({
  host: host.optional().describe('The address to listen on; 127.0.0.1 if not set'),
  port: port.optional().describe('The port to listen on; 9902 if not set, or none if grpc is set and host is not'),
  grpc: orNull(z.strictObject(listener('127.0.0.1', 9903)))
    .describe(
      'A gRPC listener for Envoy (envoy.service.auth.v3.Authorization/Check); off unless set',
    ),
}); // prettier-ignore

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Returns the addresses at which proxies request decisions, by protocol; null where disabled.
 * `grpc` alone opens no port for HTTP.
 */
export function decisionAddresses(decision: z.infer<typeof decisionSchema> | null): {
  readonly http: ListenAddress | null;
  readonly grpc: ListenAddress | null;
} {
  if (decision === null) return { http: null, grpc: null };
  const { host, port, grpc } = decision;
  const isNamed = host !== undefined || port !== undefined;
  return {
    http: isNamed || grpc === null ? { host: host ?? '127.0.0.1', port: port ?? 9902 } : null,
    grpc,
  };
}

/** Limits for clients. The listening process holds them, so a change needs a restart. */
export const limitsSchema = z.strictObject({
  connections: integer(1, 1_000_000)
    .default(10_000)
    .describe('Open client connections in each process; the system limit on open files also applies'),
  head_timeout: timeLimit.prefault('20s').describe('Timeout for a complete request head'),
  head_size: size(1_024, 1_048_576)
    .prefault('16KiB')
    .describe('Maximum size of all header fields of a request together'),
  head_fields: integer(10, 1_000).default(100).describe('Maximum number of header fields in a request'),
  target_size: size(256, 65_536).prefault('8KiB').describe('Maximum size of a request target'),
  body_size: size(1_024, 16_777_216)
    .prefault('64KiB')
    .describe('Maximum size of a request body at a built-in endpoint'),
  body_timeout: timeLimit
    .prefault('15s')
    .describe('Timeout for the complete request body at a built-in endpoint'),
  keep_alive: timeLimit.prefault('65s').describe('How long an idle client connection stays open'),
  drain_timeout: timeLimit.prefault('30s').describe('How long requests in flight may take during a shutdown'),
});
