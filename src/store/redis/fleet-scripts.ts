import { LIVE_MS } from '../fleet-store.js';

/** How long a question is kept, in milliseconds; nobody waits for answers longer. */
const QUESTION_MS = 15_000;

/** Lua function that returns Redis's clock in milliseconds. */
const FLEET = `
local function fleetNow()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
`;

export const fleetScripts = {
  /**
   * Writes a heartbeat and removes processes that are gone. Arguments:
   * the id and record of a process.
   */
  fleetBeat: `
${FLEET}
useReserve()
local now = fleetNow()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P('fleet:beats'), '-inf', now - ${LIVE_MS})) do
  redis.call('HDEL', P('fleet'), id)
  redis.call('ZREM', P('fleet:beats'), id)
end
redis.call('HSET', P('fleet'), ARGV[2], ARGV[3])
redis.call('ZADD', P('fleet:beats'), now, ARGV[2])
redis.call('ZREM', P('fleet:left'), ARGV[2])
return 1
`,
  /** Returns the records of the live processes, each with the milliseconds since its heartbeat. */
  fleetList: `
${FLEET}
local now, found = fleetNow(), {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P('fleet:beats'), now - ${LIVE_MS}, '+inf')) do
  local text = redis.call('HGET', P('fleet'), id)
  if text then
    found[#found + 1] = text
    found[#found + 1] = now - tonumber(redis.call('ZSCORE', P('fleet:beats'), id))
  end
end
return found
`,
  /** Removes a process, and keeps its id for those who wait for its answer. */
  fleetLeave: `
${FLEET}
useReserve()
local now = fleetNow()
redis.call('HDEL', P('fleet'), ARGV[2])
redis.call('ZREMRANGEBYSCORE', P('fleet:left'), '-inf', now - ${QUESTION_MS})
if redis.call('ZREM', P('fleet:beats'), ARGV[2]) == 0 then return 0 end
redis.call('ZADD', P('fleet:left'), now, ARGV[2])
return redis.call('PEXPIRE', P('fleet:left'), ${QUESTION_MS})
`,
  /**
   * Writes the key of a question. Every link is notified of it after everything that ended before.
   */
  fleetAsk: `
${FLEET}
useReserve()
local now = fleetNow()
redis.call('ZREMRANGEBYSCORE', P('fleet:questions'), '-inf', now - ${QUESTION_MS})
redis.call('ZADD', P('fleet:questions'), now, ARGV[2])
redis.call('SET', P('fleet_ask:' .. ARGV[2]), '', 'PX', ${QUESTION_MS})
return 1
`,
  /** Records who answered a question; ignored if the question does not exist. */
  fleetAnswer: `
if redis.call('EXISTS', P('fleet_ask:' .. ARGV[2])) == 0 then return 0 end
useReserve()
redis.call('SADD', P('fleet:answers:' .. ARGV[2]), ARGV[3])
return redis.call('PEXPIRE', P('fleet:answers:' .. ARGV[2]), ${QUESTION_MS})
`,
  /** Returns the ids of the processes that answered a question or left. */
  fleetAnswers: `
local found = redis.call('SMEMBERS', P('fleet:answers:' .. ARGV[2]))
for _, id in ipairs(redis.call('ZRANGE', P('fleet:left'), 0, -1)) do found[#found + 1] = id end
return found
`,
  /** Returns the questions whose answers may still be awaited. */
  fleetQuestions: `
${FLEET}
return redis.call('ZRANGEBYSCORE', P('fleet:questions'), fleetNow() - ${QUESTION_MS}, '+inf')
`,
};
