import { z } from 'zod';
import { durationBetween, filePath, size, text, timeLimit, writtenPath } from './units.js';
import { parseAddress, parsePostgresUrl, parseRedisUrl } from '../../domain/urls.js';

const lmdb = z.strictObject({
  type: z.literal('lmdb').describe('Embedded LMDB, in a folder on this machine'),
  path: writtenPath.default('./data').describe('The folder of the store'),
  min_free: size(0, 1_099_511_627_776)
    .prefault('16MiB')
    .describe(
      'Free disk space below which nothing is added; revoking and locking work down to a quarter of it',
    ),
});

const address = text.refine((value) => parseAddress(value) !== undefined, 'expected host:port');

const tls = z
  .strictObject({
    ca: filePath.nullable().default(null).describe('File with the certificate authorities to trust (PEM)'),
    cert: filePath.nullable().default(null).describe('File with a client certificate (PEM)'),
    key: filePath.nullable().default(null).describe('File with the private key of that certificate (PEM)'),
    server_name: text.nullable().default(null).describe('The name in the certificate, if it is not the host'),
  })
  .nullable()
  .default(null);

const sealingKey = z
  .string('expected a key')
  .regex(/^[0-9A-Fa-f]{64}$/, 'expected 64 hexadecimal digits, as "openssl rand -hex 32" prints')
  .meta({ secret: true })
  .nullable()
  .default(null)
  .describe('The key that encrypts secrets in the store; the same for the whole fleet');

const redis = z
  .strictObject({
    type: z
      .literal('redis')
      .describe(
        'Redis 6.2 or newer, or Valkey, shared by several machines. Set exactly one of url, cluster and sentinel',
      ),
    url: text
      .refine(
        (value) => parseRedisUrl(value) !== undefined,
        'expected redis://[user:password@]host[:port][/database] or rediss://, with every other character escaped',
      )
      .nullable()
      .default(null)
      .describe('A single node: redis://[user:password@]host:port[/database]; rediss:// uses TLS'),
    cluster: z
      .array(address)
      .min(1)
      .nullable()
      .default(null)
      .describe('Addresses of some nodes of a Redis Cluster')
      .meta({ example: '["redis-1:6379", "redis-2:6379"]' }),
    sentinel: z
      .strictObject({
        master: text.describe('The name of the master'),
        nodes: z.array(address).min(1).describe('Addresses of all sentinels'),
        username: text.nullable().default(null).describe('The ACL user on the sentinels'),
        password: text
          .meta({ secret: true })
          .nullable()
          .default(null)
          .describe('The password of the sentinels (requirepass, or of that user)'),
      })
      .nullable()
      .default(null)
      .describe('A master that Redis Sentinel monitors')
      .meta({ example: '{ master: mymaster, nodes: ["sentinel-1:26379"] }' }),
    prefix: text
      .regex(/^[^{}\s]+$/, 'expected a prefix without braces and spaces')
      .default('latchkey:')
      .describe('The prefix of every key in Redis'),
    tls: tls.describe('TLS settings; they also apply to a rediss:// URL'),
    username: text.nullable().default(null).describe('The Redis ACL user'),
    password: text
      .meta({ secret: true })
      .nullable()
      .default(null)
      .describe('The password of that user; prefer ${file:...} to writing it here'),
    command_timeout: timeLimit
      .prefault('250ms')
      .describe('Timeout for a command; changes may take four times as long'),
    acknowledge: z
      .strictObject({
        replicas: z
          .int('expected a whole number')
          .min(1, 'expected 1 or more')
          .max(10, 'expected 10 or less')
          .describe('The number of replicas that must confirm a change'),
        timeout: durationBetween(10, 10_000, 'expected 10ms to 10s')
          .prefault('1s')
          .describe('How long to wait for the confirmation; then the response is 503'),
      })
      .nullable()
      .default(null)
      .describe('Acknowledge a change only after replicas have confirmed it; null: at once'),
    revocations: writtenPath
      .nullable()
      .default(null)
      .describe('A folder for the revocations of the last hour; null: in memory only'),
    sealing_key: sealingKey,
  })
  .refine(
    ({ url, cluster, sentinel }) => [url, cluster, sentinel].filter((each) => each !== null).length === 1,
    'set one of url, cluster and sentinel',
  );

const postgresUrl = text.refine(
  (value) => parsePostgresUrl(value) !== undefined,
  'expected postgres://[user[:password]@]host[:port]/database, with every other character escaped, and no parameters but sslmode',
);

const postgres = z.strictObject({
  type: z.literal('postgres').describe('PostgreSQL 13 or newer, shared by several machines'),
  url: postgresUrl.describe(
    'The server and database: postgres://[user[:password]@]host[:port]/database; ?sslmode=require uses TLS',
  ),
  listener_url: postgresUrl
    .nullable()
    .default(null)
    .describe(
      'The same database without a connection pooler, if url leads to one in transaction mode: for one connection that listens for changes',
    )
    .meta({ example: 'postgres://db.internal:5432/latchkey' }),
  schema: text
    .regex(/^[a-z_][a-z0-9_]{0,39}$/, 'expected at most 40 lower-case letters, digits and underscores')
    .default('latchkey')
    .describe('The schema of the tables; Latchkey creates it'),
  password: text
    .meta({ secret: true })
    .nullable()
    .default(null)
    .describe('The password of the user in url; prefer ${file:...} to writing it here'),
  tls: tls.describe('TLS settings; with them, or with sslmode, connections use TLS'),
  connections: z
    .int('expected a whole number')
    .min(1, 'expected 1 or more')
    .max(100, 'expected 100 or less')
    .default(10)
    .describe('The most connections of one process, beside the one that listens'),
  command_timeout: timeLimit
    .prefault('500ms')
    .describe('Timeout for a query; changes may take four times as long'),
  sealing_key: sealingKey,
});

/** Where users, tokens and sessions are stored. */
export const storeSchema = z.discriminatedUnion(
  'type',
  [lmdb, redis, postgres],
  'expected lmdb, redis or postgres',
);
