import { HOUR_MS } from '../../util/time.js';
import { WRITES_KEPT_MS } from '../usage-store.js';

export const usageScripts = {
  /**
   * Records last uses; an older one never replaces a newer one. Arguments: kind (`token` or
   * `session`), key and record of each. Damaged sessions are skipped.
   */
  recordUses: `
for i = 2, #ARGV, 3 do
  local kind, key, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local hash = kind == 'token' and P('uses') or P('session_uses')
  local session = kind == 'session' and unlessUnreadable(sessionAt, key)
  if session or kind == 'token' and isThere(key) then
    local known = decoded(redis.call('HGET', hash, key))
    local use = cjson.decode(text)
    local seenAt = math.max(known and tonumber(known.at) or 0, session and session.lastSeenAt or 0)
    if seenAt < use.at then
      redis.call('HSET', hash, key, text)
      if session then redis.call('ZADD', P('expiry:others'), math.min(session.endsAt, use.idleEndsAt), 'session:' .. key) end
    end
  end
end
return 0
`,
  takeOtpStep: `
local key, step = P('otp:' .. ARGV[2]), tonumber(ARGV[3])
if tonumber(redis.call('GET', key) or '-1') >= step then return 0 end
redis.call('SET', key, ARGV[3])
return 1
`,
  /**
   * Counts a write. The key expires when no clock of the fleet can show the hour any more: a JWT's
   * user has no record whose removal would remove it.
   */
  countWrite: `
local key, hour = P('writes:' .. ARGV[2]), tonumber(ARGV[3])
local known = tonumber(redis.call('HGET', key, 'hour') or 0)
if known ~= hour and known ~= hour + ${HOUR_MS} then
  redis.call('HSET', key, 'hour', ARGV[3], 'count', 0)
  redis.call('PEXPIRE', key, ${WRITES_KEPT_MS})
end
return redis.call('HINCRBY', key, 'count', 1)
`,
  /**
   * Takes requests from a token bucket as `takeFrom` does, by Redis's clock. The key expires
   * when the bucket is full again. Returns how many were granted, and after how many
   * milliseconds one is available.
   */
  leaseRate: `
local key, count, per, want = P('rate:' .. ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local step, before = per / count, tonumber(redis.call('GET', key) or '0')
local full = math.min(math.max(before, now), now + per)
local granted = math.max(0, math.min(want, math.floor((now + per - full) / step + 0.001)))
local wait = granted == 0 and string.format('%.3f', full + step - (now + per)) or '0'
full = full + granted * step
-- A state beyond an empty bucket is replaced: it would never refill.
if granted > 0 or full < before then
  redis.call('SET', key, string.format('%.17g', full), 'PX', math.max(1, math.ceil(full - now)))
end
return {granted, wait}
`,
};
