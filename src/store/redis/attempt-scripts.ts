import { FIRST_WAIT_MS, MAX_DOUBLINGS, MAX_KNOWN_ADDRESSES } from '../login-throttle-store.js';

// What the store does with login attempts (`store/login-throttle-store.ts` says what they mean), each in one atomic step; how these
// scripts are called is in scripts.ts. Limits come as JSON, with digests for keys.

const HELD_UNTIL = `
local limits, now = cjson.decode(ARGV[2]), tonumber(ARGV[3])
local function countOf(limit)
  local known = redis.call('HMGET', P('failure:' .. limit.key), 'count', 'lastAt', 'forgetAt')
  local forgetAt = tonumber(known[3] or 0)
  if not known[1] or forgetAt <= now then return nil end
  return {count = tonumber(known[1]), lastAt = tonumber(known[2]), forgetAt = forgetAt}
end
local held = 0
for _, limit in ipairs(limits) do
  local known = countOf(limit)
  if known and known.count >= limit.stopAt then
    held = math.max(held, math.min(known.forgetAt, now + limit.forgetAfter))
  elseif known and known.count >= limit.free then
    local wait = ${FIRST_WAIT_MS} * 2 ^ math.min(known.count - limit.free, ${MAX_DOUBLINGS})
    held = math.max(held, math.min(known.lastAt, now) + math.min(limit.longestWait, wait))
  end
end
if held <= now then held = 0 end
`;

export const attemptScripts = {
  attemptHeldUntil: `${HELD_UNTIL}
return string.format('%.0f', held)
`,
  reserveAttempt: `${HELD_UNTIL}
if held > 0 then return string.format('%.0f', held) end
for _, limit in ipairs(limits) do
  local key, known = P('failure:' .. limit.key), countOf(limit)
  local count, before, forgetAt = 1, 0, now + limit.forgetAfter
  if known then
    count, before = known.count + 1, known.lastAt
    if limit.forgetFrom == 'first' then forgetAt = known.forgetAt end
  end
  local function whole(number) return string.format('%.0f', number) end
  redis.call('HSET', key, 'count', count, 'lastAt', ARGV[3], 'before', whole(before), 'forgetAt', whole(forgetAt))
  redis.call('ZADD', P('expiry:others'), forgetAt, 'failure:' .. limit.key)
end
return '0'
`,
  /** Counts to forget and counts to take one out of, and an address to remember. Those of an account go with the last one. */
  settleAttempt: `
local settlement, now = cjson.decode(ARGV[2]), tonumber(ARGV[3])
local function clear(key)
  redis.call('DEL', P('failure:' .. key))
  redis.call('ZREM', P('expiry:others'), 'failure:' .. key)
end
for _, key in ipairs(settlement.clear) do clear(key) end
for _, key in ipairs(settlement.release) do
  local known = redis.call('HMGET', P('failure:' .. key), 'count', 'before')
  if known[1] and tonumber(known[1]) <= 1 then clear(key)
  elseif known[1] then
    redis.call('HINCRBY', P('failure:' .. key), 'count', -1)
    if known[2] then redis.call('HSET', P('failure:' .. key), 'lastAt', known[2]) end
  end
end
local remember = settlement.remember
if remember then
  local key, addresses = P('known:' .. remember.account), {}
  redis.call('HSET', key, remember.address, string.format('%.0f', remember['until']))
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do addresses[#addresses + 1] = {address = all[i], at = tonumber(all[i + 1])} end
  table.sort(addresses, function(a, b) return a.at > b.at end)
  for i, each in ipairs(addresses) do
    if i > ${MAX_KNOWN_ADDRESSES} or each.at <= now then redis.call('HDEL', key, each.address) end
  end
  redis.call('PEXPIRE', key, string.format('%.0f', math.max(1, addresses[1].at - now)))
end
return 0
`,
  knownAddresses: `
local found, all = {}, redis.call('HGETALL', P('known:' .. ARGV[2]))
for i = 1, #all, 2 do
  if tonumber(all[i + 1]) > tonumber(ARGV[3]) then found[#found + 1] = all[i] end
end
return found
`,
};
