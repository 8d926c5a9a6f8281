import { z } from 'zod';
import { positiveDuration, size, text } from './units.js';

const lmdb = z.strictObject({
  type: z.literal('lmdb').describe('Embedded: a folder on the disk of this machine'),
  path: text.default('./data').describe('A folder; several processes of one machine may share it'),
  min_free: size(0, 1_099_511_627_776)
    .prefault('16MiB')
    .describe('With less free space on its disk nothing is written; a quarter of it is enough to revoke'),
});

const address = text.regex(/^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?$/, 'expected host:port');

const redis = z
  .strictObject({
    type: z
      .literal('redis')
      .describe(
        'Redis 6.2 or newer, or Valkey, for several machines. One of url, cluster and sentinel says where',
      ),
    url: text
      .regex(/^rediss?:\/\//, 'expected a redis:// or rediss:// URL')
      .nullable()
      .default(null)
      .describe('One node: redis://[user:password@]host:port[/database]; rediss:// is TLS'),
    cluster: z.array(address).min(1).nullable().default(null).describe('Some nodes of a cluster'),
    sentinel: z
      .strictObject({
        master: text.describe('The name of the master'),
        nodes: z.array(address).min(1).describe('Some of the sentinels'),
      })
      .nullable()
      .default(null)
      .describe('A master that sentinels watch'),
    prefix: text
      .regex(/^[^{}\s]+$/, 'expected a prefix without braces and spaces')
      .default('latchkey:')
      .describe('What every key begins with'),
    tls: z
      .strictObject({
        ca: text.nullable().default(null).describe('File with the authorities to trust (PEM)'),
        cert: text.nullable().default(null).describe('File with a client certificate (PEM)'),
        key: text.nullable().default(null).describe('File with its private key (PEM)'),
        server_name: text
          .nullable()
          .default(null)
          .describe('The name that its certificate has to be for, when that is not the host'),
      })
      .nullable()
      .default(null)
      .describe('TLS, also with a rediss:// URL'),
    username: text.nullable().default(null).describe('The user of the ACL'),
    password: text
      .nullable()
      .default(null)
      .describe('Its password; better from ${file:...} than written here'),
    command_timeout: positiveDuration.prefault('250ms').describe('How long one command may take'),
    sealing_key: z
      .string('expected a key')
      .regex(/^[0-9A-Fa-f]{64}$/, 'expected 64 hexadecimal digits, as "openssl rand -hex 32" prints')
      .nullable()
      .default(null)
      .describe(
        'Encrypts the secrets of one-time passwords and the signing keys; the same for the whole fleet',
      ),
  })
  .refine(
    ({ url, cluster, sentinel }) => [url, cluster, sentinel].filter((each) => each !== null).length === 1,
    'give one of url, cluster and sentinel',
  );

/** Where accounts, tokens and sessions are kept. */
export const storeSchema = z.discriminatedUnion('type', [lmdb, redis], 'expected lmdb or redis');
