/**
 * Takes requests from a token bucket as `takeFrom` does, by the clock of Redis. The key is gone when the bucket is full again.
 * Returns how many were granted, and after how many milliseconds there is one.
 */
export const LEASE_RATE = `
local key, count, per, want = P('rate:' .. ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local step = per / count
local full = math.min(math.max(tonumber(redis.call('GET', key) or '0'), now), now + per)
local granted = math.min(want, math.floor((now + per - full) / step + 0.001))
if granted < 1 then return {0, string.format('%.3f', full + step - (now + per))} end
full = full + granted * step
redis.call('SET', key, string.format('%.17g', full), 'PX', math.max(1, math.ceil(full - now)))
return {granted, '0'}
`;
