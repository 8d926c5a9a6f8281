import { z } from 'zod';
import { durationBetween, filePath, integer, orNull, size, text, timeLimit, writtenPath } from './units.js';
import { parseAddress, parseRedisUrl } from '../../domain/redis-address.js';

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
    cluster: orNull(z.array(address).min(1))
      .describe('Addresses of some nodes of a Redis Cluster')
      .meta({ example: '["redis-1:6379", "redis-2:6379"]' }),
    sentinel: orNull(
      z.strictObject({
        master: text.describe('The name of the master'),
        nodes: z.array(address).min(1).describe('Addresses of all sentinels'),
        username: orNull(text).describe('The ACL user on the sentinels'),
        password: orNull(text.meta({ secret: true })).describe(
          'The password of the sentinels (requirepass, or of that user)',
        ),
      }),
    )
      .describe('A master that Redis Sentinel monitors')
      .meta({ example: '{ master: mymaster, nodes: ["sentinel-1:26379"] }' }),
    prefix: text
      .regex(/^[^{}\s]+$/, 'expected a prefix without braces and spaces')
      .default('latchkey:')
      .describe('The prefix of every key in Redis'),
    tls: orNull(
      z.strictObject({
        ca: orNull(filePath).describe('File with the certificate authorities to trust (PEM)'),
        cert: orNull(filePath).describe('File with a client certificate (PEM)'),
        key: orNull(filePath).describe('File with the private key of that certificate (PEM)'),
        server_name: orNull(text).describe("The name in Redis's certificate, if it is not the host"),
      }),
    ).describe('TLS settings; they also apply to a rediss:// URL'),
    username: orNull(text).describe('The Redis ACL user'),
    password: orNull(text.meta({ secret: true })).describe(
      'The password of that user; prefer ${file:...} to writing it here',
    ),
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
    sealing_key: orNull(
      z
        .string('expected a key')
        .regex(/^[0-9A-Fa-f]{64}$/, 'expected 64 hexadecimal digits, as "openssl rand -hex 32" prints')
        .meta({ secret: true }),
    ).describe('The key that encrypts secrets in the store; the same for the whole fleet'),
  })
  .refine(
    ({ url, cluster, sentinel }) => [url, cluster, sentinel].filter((each) => each !== null).length === 1,
    'set one of url, cluster and sentinel',
  );

/** Where users, tokens and sessions are stored. */
export const storeSchema = z.discriminatedUnion('type', [lmdb, redis], 'expected lmdb or redis');
