import { z } from 'zod';
import { durationBetween, integer, orNull, size, text, timeLimit, tlsFiles, writtenPath } from './units.js';
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

const tls = orNull(
  z.strictObject({
    ...tlsFiles,
    server_name: orNull(text).describe('The name in the certificate, if it is not the host'),
  }),
);

const secret = text.meta({ secret: true });

const sealingKey = orNull(
  z
    .string('expected a key')
    .regex(/^[0-9A-Fa-f]{64}$/, 'expected 64 hexadecimal digits, as "openssl rand -hex 32" prints')
    .meta({ secret: true }),
).describe('The key that encrypts secrets in the store; the same for the whole fleet');

const redis = z
  .strictObject({
    type: z
      .literal('redis')
      .describe(
        'Redis 6.2 or newer, or Valkey, shared by several machines. Set exactly one of url, cluster and sentinel',
      ),
    url: orNull(
      text.refine(
        (value) => parseRedisUrl(value) !== undefined,
        'expected redis://[user:password@]host[:port][/database] or rediss://, with every other character escaped',
      ),
    ).describe('A single node: redis://[user:password@]host:port[/database]; rediss:// uses TLS'),
    cluster: orNull(z.array(address).min(1)).describe('Addresses of some nodes of a Redis Cluster'),
    sentinel: orNull(
      z.strictObject({
        master: text.describe('The name of the master'),
        nodes: z.array(address).min(1).describe('Addresses of all sentinels'),
        username: orNull(text).describe('The ACL user on the sentinels'),
        password: orNull(secret).describe('The password of the sentinels (requirepass, or of that user)'),
      }),
    )
      .describe('A master that Redis Sentinel monitors')
      .meta({ example: '{ master: mymaster, nodes: ["sentinel-1:26379"] }' }),
    prefix: text
      .regex(/^[^{}\s]+$/, 'expected a prefix without braces and spaces')
      .default('latchkey:')
      .describe('The prefix of every key in Redis'),
    tls: tls.describe('TLS settings; they also apply to a rediss:// URL'),
    username: orNull(text).describe('The Redis ACL user'),
    password: orNull(secret).describe('The password of that user; prefer ${file:...} to writing it here'),
    command_timeout: timeLimit
      .prefault('250ms')
      .describe('Timeout for a command; changes may take four times as long'),
    acknowledge: orNull(
      z.strictObject({
        replicas: integer(1, 10).describe('The number of replicas that must confirm a change'),
        timeout: durationBetween(10, 10_000, 'expected 10ms to 10s')
          .prefault('1s')
          .describe('How long to wait for the confirmation; then the response is 503'),
      }),
    ).describe('Acknowledge a change only after replicas have confirmed it; null: at once'),
    revocations: orNull(writtenPath).describe(
      'A folder for the revocations of the last hour; null: in memory only',
    ),
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
  listener_url: orNull(postgresUrl).describe(
    'The same database without a connection pooler, if url leads to one in transaction mode: for one connection that listens for changes',
  ),
  schema: text
    .regex(/^[a-z_][a-z0-9_]{0,39}$/, 'expected at most 40 lower-case letters, digits and underscores')
    .default('latchkey')
    .describe('The schema of the tables; Latchkey creates it'),
  password: orNull(secret).describe('The password of the user in url; prefer ${file:...} to writing it here'),
  tls: tls.describe('TLS settings; with them, or with sslmode, connections use TLS'),
  connections: integer(1, 100)
    .default(10)
    .describe('The most connections of one process, beside the one that listens'),
  command_timeout: timeLimit
    .prefault('500ms')
    .describe('Timeout for a query; changes may take four times as long'),
  sealing_key: sealingKey,
});

export const storeSchema = z.discriminatedUnion(
  'type',
  [lmdb, redis, postgres],
  'expected lmdb, redis or postgres',
);
