import { RecordUnreadable, unlessDamaged } from '../faults.js';
import { DIGEST_PART, type RemovableKind } from '../records.js';
import type { Maintenance } from '../store.js';
import { firstEvent } from '../webhook-records.js';
import type { RedisClient } from './client.js';
import type { Reads } from './reads.js';
import { customerFrom, serviceFrom, userFrom } from './records.js';
import { deadLetterIn, deadTexts, parsed } from './webhook-store.js';

/** Where a record is: its id or digest, and what else its removal needs. */
type Place = readonly [id: string, ...second: string[]];

export function redisRemoveDamaged(client: RedisClient, reads: Reads): Maintenance['removeDamaged'] {
  const first = async (endpoint: string, subject = '') => {
    const text = await client.script('readFirstWebhook', endpoint, subject);
    return text === null ? undefined : firstEvent(parsed(text), endpoint, subject);
  };
  const read: Readonly<Record<RemovableKind, (place: Place) => Promise<unknown>>> = {
    customer: async ([id]) => reads.record(`customer:${id}`, customerFrom),
    service: async ([id]) => reads.record(`service:${id}`, serviceFrom),
    user: async ([id]) => reads.record(`user:${id}`, userFrom),
    token: async ([id]) => reads.tokens([id]),
    session: async ([digest]) => reads.sessions([digest]),
    webhook: async ([endpoint, subject]) => first(endpoint, subject),
    dead_letter: async ([endpoint, text = '']) => deadLetterIn(text, endpoint),
  };
  return async (kind, name) => {
    const place = await findPlace(client, reads, kind, name);
    if (place === undefined) return false;
    try {
      await read[kind](place);
      return false;
    } catch (error) {
      if (!(error instanceof RecordUnreadable)) throw error;
    }
    return (await client.script('removeDamaged', kind, ...place)) === 1;
  };
}

async function findPlace(
  client: RedisClient,
  reads: Reads,
  kind: RemovableKind,
  name: string,
): Promise<Place | undefined> {
  if (kind === 'token' || kind === 'session') return findOwned(reads, `${kind}s`, name);
  if (kind === 'webhook') {
    const at = name.lastIndexOf('/');
    return [name.slice(0, at), name.slice(at + 1)];
  }
  if (kind !== 'dead_letter') return [name];
  const texts = await deadTexts(client, name);
  const damaged = texts.find((text) => unlessDamaged(() => deadLetterIn(text, name)) === undefined);
  return damaged === undefined ? undefined : [name, damaged];
}

/** Finds a token by its id, or it or a session by the beginning of its digest; `second` is the owner. */
async function findOwned(
  reads: Reads,
  index: 'tokens' | 'sessions',
  name: string,
): Promise<Place | undefined> {
  for (const customer of await reads.members('customers'))
    for (const owner of await reads.members(`users:${customer}`)) {
      const ids = await reads.members(`${index}:${owner}`);
      const digests: [id: string, digest: string][] =
        index === 'sessions'
          ? ids.map((digest) => [digest, digest])
          : await reads.records(ids, 'id:', (digest, id) => [id, digest]);
      const found = digests.find(
        ([id, digest]) => id === name || (name.length >= DIGEST_PART && digest.startsWith(name)),
      );
      if (found !== undefined) return [found[0], owner];
    }
  return undefined;
}
