// What the store does with sessions and with those who log in, each in one atomic step; how these scripts are called is in scripts.ts.

export const CREATE_SESSION = `
local session = cjson.decode(ARGV[2])
redis.call('SET', P('session:' .. session.digest), ARGV[2])
redis.call('SADD', P('sessions:' .. session.userId), session.digest)
redis.call('ZADD', P('expiry:others'), session.endsAt, 'session:' .. session.digest)
return 1
`;

export const END_SESSION = `return removeSession(ARGV[2])`;

export const END_SESSIONS = `return endSessions(ARGV[2], ARGV[3])`;

export const TAKE_OTP_STEP = `
local key, step = P('otp:' .. ARGV[2]), tonumber(ARGV[3])
if tonumber(redis.call('GET', key) or '-1') >= step then return 0 end
redis.call('SET', key, ARGV[3])
return 1
`;

export const READ_FAILURE = `return redis.call('HMGET', P('failure:' .. ARGV[2]), 'count', 'lastAt', 'forgetAt')`;

export const ADD_FAILURE = `
local key, now, forgetAt = P('failure:' .. ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local known = redis.call('HMGET', key, 'count', 'forgetAt')
local count = 1
if known[1] and tonumber(known[2]) > now then count = tonumber(known[1]) + 1 end
redis.call('HSET', key, 'count', count, 'lastAt', ARGV[3], 'forgetAt', ARGV[4])
redis.call('ZADD', P('expiry:others'), forgetAt, 'failure:' .. ARGV[2])
return count
`;

export const CLEAR_FAILURES = `
redis.call('DEL', P('failure:' .. ARGV[2]))
redis.call('ZREM', P('expiry:others'), 'failure:' .. ARGV[2])
return 0
`;

/** Fields by credential. Those that are over go with the next one, and all of them with the last. */
export const GRANT_SUDO = `
local key, now, lasts = P('sudo:' .. ARGV[2]), tonumber(ARGV[5]), cjson.decode(ARGV[4])['until']
local known = redis.call('HGETALL', key)
local last = lasts
for i = 1, #known, 2 do
  local other = cjson.decode(known[i + 1])['until']
  if other <= now then redis.call('HDEL', key, known[i]) elseif other > last then last = other end
end
redis.call('HSET', key, ARGV[3], ARGV[4])
redis.call('PEXPIRE', key, math.max(1, last - now))
return 1
`;

export const READ_SUDO = `return redis.call('HGET', P('sudo:' .. ARGV[2]), ARGV[3])`;

export const COUNT_WRITE = `
local key, hour = P('writes:' .. ARGV[2]), tonumber(ARGV[3])
local known = tonumber(redis.call('HGET', key, 'hour') or 0)
if known ~= hour and known ~= hour + 3600000 then redis.call('HSET', key, 'hour', ARGV[3], 'count', 0) end
return redis.call('HINCRBY', key, 'count', 1)
`;
