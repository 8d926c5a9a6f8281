import { z } from 'zod';
import { timeLimit, size, text, integer } from './units.js';

/** Limits for clients. The listening process holds them, so a change needs a restart. */
export const limitsSchema = z.strictObject({
  connections: integer(1, 1_000_000)
    .default(10_000)
    .describe(
      'Open client connections in each process; also limited by the open files that the system allows',
    ),
  head_timeout: timeLimit.prefault('20s').describe('Timeout of a whole request head'),
  head_size: size(1_024, 1_048_576).prefault('16KiB').describe('Request target and fields together'),
  head_fields: integer(10, 1_000).default(100).describe('Fields of a head'),
  target_size: size(256, 65_536).prefault('8KiB').describe('Request target'),
  body_size: size(1_024, 16_777_216).prefault('64KiB').describe('Body of a built-in endpoint'),
  body_timeout: timeLimit.prefault('15s').describe('Timeout of the whole body of a built-in endpoint'),
  keep_alive: timeLimit
    .prefault('65s')
    .describe(
      'How long an idle connection stays open; the default outlasts the 60 s of common load balancers',
    ),
  drain_timeout: timeLimit
    .prefault('30s')
    .describe('How long requests in flight may take after the server is stopped'),
});

/** Forwarding of allowed requests. */
export const proxySchema = z.strictObject({
  stream_recheck: timeLimit
    .prefault('30s')
    .describe(
      'WebSockets and long responses are closed within this time after their credential becomes invalid',
    ),
});

export const auditSchema = z
  .strictObject({
    to: text
      .meta({ path: { except: 'stdout' } })
      .nullable()
      .default('stdout')
      .describe('stdout, a file to append to, or null for none'),
    required: z
      .boolean('expected true or false')
      .default(false)
      .describe('Refuse changes of tokens and sessions while the audit log cannot be written'),
  })
  .refine(
    ({ to, required }) => !required || (to !== null && to !== 'stdout'),
    'audit.required needs a file in audit.to',
  );
