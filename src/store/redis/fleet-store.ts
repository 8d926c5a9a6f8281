import type { FleetStore, LiveMember, Member } from '../fleet-store.js';
import type { RedisClient } from './client.js';

/** Prefix of the keys that ask every process whether it has dropped what ended. */
export const QUESTION = 'fleet_ask:';

/** The fleet in Redis. The age of heartbeats is measured by Redis's clock. */
export function redisFleetStore(client: RedisClient): FleetStore {
  return {
    beat: async (member) => void (await client.script('fleetBeat', member.id, JSON.stringify(member))),
    list: async () => membersFrom((await client.script('fleetList')) as (string | number)[]),
    leave: async (id) => void (await client.script('fleetLeave', id)),
    ask: async (question) => void (await client.script('fleetAsk', question)),
    answer: async (question, member) => void (await client.script('fleetAnswer', question, member)),
    answers: async (question) => (await client.script('fleetAnswers', question)) as string[],
  };
}

/** Returns the questions whose answers may still be awaited. */
export async function openQuestions(client: RedisClient): Promise<string[]> {
  return (await client.script('fleetQuestions')) as string[];
}

function membersFrom(rows: readonly (string | number)[]): LiveMember[] {
  const found: LiveMember[] = [];
  for (let i = 0; i < rows.length; i += 2)
    found.push({ ...(JSON.parse(String(rows[i])) as Member), age: Number(rows[i + 1]) });
  return found.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}
