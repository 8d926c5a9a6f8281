// Records that every process of the simulation can generate for itself.
import { createHash } from 'node:crypto';

const USERS = 1_000;
const ID = 'x'.repeat(14);

/** @param {number} index */
export const digestAt = (index) => createHash('sha256').update(`token ${index}`).digest('base64url');

/**
 * @param {number} index
 * @returns {import('../../src/domain/user.js').User}
 */
export const userOf = (index) => ({
  id: `user${index % USERS}`,
  customerId: 'C1',
  login: `user${index % USERS}@example.com`,
  name: 'A user',
  role: 'engineer',
  passwordHash: null,
  otpSecret: null,
  locked: false,
  createdAt: 1_800_000_000_000,
  updatedAt: 1_800_000_000_000,
});

/**
 * @param {number} index
 * @returns {import('../../src/domain/token.js').Token}
 */
export const tokenAt = (index) => ({
  id: `${ID}${String(index).padStart(8, '0')}`,
  digest: digestAt(index),
  kind: 'token',
  userId: userOf(index).id,
  name: 'a token of usual length',
  scopes: ['global'],
  services: [],
  serviceId: null,
  createdAt: 1_800_000_000_000,
  updatedAt: 1_800_000_000_000,
  expiresAt: null,
});

export const users = () => Array.from({ length: USERS }, (_, i) => userOf(i));

/**
 * @param {number} port
 * @returns {import('../../src/store/redis/connect.js').RedisSettings}
 */
export const settings = (port) => ({
  url: `redis://127.0.0.1:${port}`,
  cluster: null,
  sentinel: null,
  prefix: 'latchkey:',
  tls: null,
  username: null,
  password: null,
  acknowledge: null,
  command_timeout: 5_000,
});
