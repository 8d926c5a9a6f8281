import { z } from 'zod';
import { positiveDuration, whole } from './units.js';
import { baseUrl } from './urls.js';

/** Keys of the interface that this version does not serve; `unavailable.ts` refuses them by name. */
const notYet = z.unknown().optional();

/** One of `upstreams`. */
export const upstreamSchema = z.strictObject({
  health_check: notYet,
  url: baseUrl.describe('http or https; a path is put in front of each target'),
  connect_timeout: positiveDuration.prefault('2s').describe('For a new connection, TLS included'),
  response_timeout: positiveDuration.prefault('30s').describe('To the first byte of the answer'),
  idle_timeout: positiveDuration.prefault('60s').describe('Between bytes, in either direction'),
  retries: whole(0, 10)
    .default(1)
    .describe('Only for requests without side effects, before a byte was answered'),
  max_connections: whole(1, 65_535).default(256).describe('Open connections to it, in each process'),
  max_waiting: whole(0, 1_000_000).default(1_024).describe('Requests that wait for a free connection'),
  wait_timeout: positiveDuration.prefault('10s').describe('For a free connection'),
});
