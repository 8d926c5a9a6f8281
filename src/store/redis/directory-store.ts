import { loginKey } from '../../domain/user.js';
import type { DirectoryStore } from '../directory-store.js';
import { applyChanges } from './change.js';
import type { RedisClient } from './client.js';
import type { Reads } from './reads.js';
import { customerFrom, serviceFrom, userFrom } from './records.js';

export function redisDirectoryStore(client: RedisClient, reads: Reads): DirectoryStore {
  const getUser = (id: string) => reads.record(`user:${id}`, userFrom);
  return {
    getCustomer: (id) => reads.record(`customer:${id}`, customerFrom),
    getService: (id) => reads.record(`service:${id}`, serviceFrom),
    getUser,
    getUserByLogin: async (login) => {
      const id = await reads.text(`login:${loginKey(login)}`);
      return id === null ? undefined : getUser(id);
    },
    listCustomers: async () => reads.records(await reads.members('customers'), 'customer:', customerFrom),
    listServices: async (customerId) =>
      reads.records(await reads.members(`services:${customerId}`), 'service:', serviceFrom),
    listUsers: async (customerId) =>
      reads.records(await reads.members(`users:${customerId}`), 'user:', userFrom),
    listPendingDeletions: () => reads.members('pending_deletions'),
    getPasswordCost: async () => Number((await reads.text('password_cost')) ?? 0),
    change: (changes, now) => applyChanges(client, changes, now),
  };
}
