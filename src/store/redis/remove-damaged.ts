import type { Token } from '../../domain/token.js';
import { RecordNewer, RecordUnreadable } from '../faults.js';
import { DIGEST_PART, type RemovableKind } from '../records.js';
import type { Maintenance } from '../store.js';
import { firstEvent } from '../webhook-records.js';
import type { RedisClient } from './client.js';
import type { Reads } from './reads.js';
import { customerFrom, serviceFrom, tokenFrom, userFrom } from './records.js';
import { deadLetterIn, deadTexts, parsed } from './webhook-store.js';

/** A record; `read` returns undefined if it does not exist. */
interface Found {
  readonly read: () => Promise<unknown>;
  /** The arguments of the script, behind the kind. */
  readonly args: readonly string[];
}

function record(id: string, read: () => Promise<unknown>): Found {
  return { read, args: [id] };
}

export function redisRemoveDamaged(client: RedisClient, reads: Reads): Maintenance['removeDamaged'] {
  const owned = async (index: 'tokens' | 'sessions', name: string) => findOwned(reads, index, name);
  const find: Readonly<Record<RemovableKind, (id: string) => Found | Promise<Found | undefined>>> = {
    customer: (id) => record(id, async () => reads.record(`customer:${id}`, customerFrom)),
    service: (id) => record(id, async () => reads.record(`service:${id}`, serviceFrom)),
    user: (id) => record(id, async () => reads.record(`user:${id}`, userFrom)),
    token: async (name) => {
      const found = await owned('tokens', name);
      return found && { read: async () => readTokenRecord(reads, found.id), args: [found.id, found.owner] };
    },
    session: async (name) => {
      const found = await owned('sessions', name);
      return (
        found && { read: async () => (await reads.sessions([found.id]))[0], args: [found.id, found.owner] }
      );
    },
    use: (id) => record(id, async () => (await reads.tokens([id]))[0]?.use ?? undefined),
    webhook: (name) => {
      const at = name.lastIndexOf('/');
      const [endpoint, subject] = [name.slice(0, at), name.slice(at + 1)];
      const read = async () => {
        const text = await client.script('readFirstWebhook', endpoint, subject);
        return text === null ? undefined : firstEvent(parsed(text), endpoint, subject);
      };
      return { read, args: [endpoint, subject] };
    },
    dead_letter: async (endpoint) => {
      const texts = await deadTexts(client, endpoint);
      const at = texts.findIndex((text) => !isReadable(() => deadLetterIn(text, endpoint)));
      const read = async () => (at < 0 ? texts[0] : deadLetterIn(texts[at] ?? '', endpoint));
      return { read, args: [endpoint, String(at)] };
    },
  };
  return async (kind, id) => {
    const found = await find[kind](id);
    try {
      if ((await found?.read()) === undefined) return 'not_found';
      return 'kept';
    } catch (error) {
      if (!(error instanceof RecordUnreadable) || error instanceof RecordNewer) throw error;
    }
    const removed = await client.script('removeDamaged', kind, ...(found?.args ?? []));
    return removed === 1 ? 'removed' : 'not_found';
  };
}

/** Reads a token without its last use. */
async function readTokenRecord(reads: Reads, id: string): Promise<Token> {
  const digest = (await reads.text(`id:${id}`)) ?? '';
  return tokenFrom((await reads.text(`token:${digest}`)) ?? '', id);
}

/** Finds a token by its id or the beginning of its digest, or a session by that of its digest, and the owner. */
async function findOwned(
  reads: Reads,
  index: 'tokens' | 'sessions',
  name: string,
): Promise<{ readonly id: string; readonly owner: string } | undefined> {
  for (const customer of await reads.members('customers'))
    for (const owner of await reads.members(`users:${customer}`)) {
      const ids = await reads.members(`${index}:${owner}`);
      if (ids.includes(name)) return { id: name, owner };
      if (name.length < DIGEST_PART) continue;
      const digests =
        index === 'sessions'
          ? ids.map((id) => ({ id, digest: id }))
          : await reads.records(ids, 'id:', (digest, id) => ({ id, digest }));
      const found = digests.find(({ digest }) => digest.startsWith(name));
      if (found !== undefined) return { id: found.id, owner };
    }
  return undefined;
}

function isReadable(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch (error) {
    if (error instanceof RecordUnreadable) return false;
    throw error;
  }
}
