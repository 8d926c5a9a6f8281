import { z } from 'zod';
import { isHost } from '../../util/addresses.js';
import { tlsFiles, integer, orNull, size, text, timeLimit, upstreamUrl } from './units.js';

const healthCheck = z.strictObject({
  path: text
    .regex(/^\/(?!\/)[!-~]*$/, 'expected a path like /healthz')
    .refine((path) => !path.includes('#'), 'expected a path without a fragment')
    .describe('The whole path to request by GET'),
  interval: timeLimit.prefault('5s').describe('The time between two checks, plus or minus 10 %'),
  timeout: timeLimit.prefault('2s').describe('Timeout for connection and response status'),
});

const tls = z.strictObject({
  ...tlsFiles,
  server_name: orNull(text
    .regex(/^(?=.*[A-Za-z])[A-Za-z0-9._-]+$/, 'expected a host name'))
    .describe('The name in the certificate, if it is not the host'),
}); // prettier-ignore

/** `preserve`, `upstream`, or a host with an optional port (RFC 9110 7.2). */
const hostField = z
  .string('expected preserve, upstream, or a host name')
  .refine(isHost, 'expected preserve, upstream, or a host name');

export const upstreamSchema = z
  .strictObject({
    url: upstreamUrl.optional().describe('A URL, whose path is prepended to each request target; unix:///PATH for a Unix socket'),
    urls: z.array(upstreamUrl).min(1, 'expected at least one URL').optional().describe('Several addresses that serve the same API, instead of url'),
    protocol: z
      .enum(['http1', 'h2', 'h2c'], 'expected http1, h2 (HTTP/2 over TLS) or h2c (HTTP/2 without TLS)')
      .default('http1')
      .describe('http1, h2 (HTTP/2 over TLS) or h2c (HTTP/2 without TLS); gRPC needs HTTP/2'),
    connect_timeout: timeLimit.prefault('2s').describe('Timeout for a new connection, TLS included'),
    response_timeout: timeLimit.prefault('60s').describe('Timeout for the first byte of the response'),
    idle_timeout: timeLimit.prefault('5m').describe('Longest time without a byte, in either direction'),
    max_response_head: size(1_024, 1_048_576)
      .prefault('64KiB')
      .describe('Maximum size of all header fields of a response together'),
    retries: integer(0, 10)
      .default(1)
      .describe('How often a request without side effects is resent'),
    max_connections: integer(1, 65_535)
      .default(256)
      .describe('Concurrent requests and WebSockets to all addresses, in each process'),
    max_waiting: integer(0, 1_000_000).default(1_024).describe('Requests that may wait for a free connection'),
    wait_timeout: timeLimit.prefault('10s').describe('Longest wait for a free connection'),
    health_check: orNull(healthCheck).describe('Active health checks of each address'),
    host: hostField.default('preserve')
      .describe("The Host to send: preserve (the client's), upstream (the URL's), or a host name"),
    tls: orNull(tls).describe('TLS settings for https; the certificate is always verified'),
  })
  .refine(({ url, urls }) => url !== undefined || urls !== undefined, 'set url, or urls for several addresses')
  .refine(({ url, urls }) => url === undefined || urls === undefined, 'set either url or urls, not both')
  .meta({ example: '{ url: http://127.0.0.1:3000 }' }); // prettier-ignore

export const proxySchema = z.strictObject({
  stream_recheck: timeLimit
    .prefault('30s')
    .describe('How soon open WebSockets and responses are closed once they are no longer allowed'),
});
