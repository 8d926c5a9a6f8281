/** Lua function that returns the cost of a password hash, computed as in {@link costOfHash}. */
export const COST_OF = `
local function costOf(hash)
  if type(hash) ~= 'string' then return 0 end
  local memory, passes = string.match(hash, '^%$argon2id%$v=19%$m=(%d+),t=(%d+),p=%d+%$')
  return memory and tonumber(memory) * tonumber(passes) or 0
end
`;

/**
 * Initializes a store in an empty Redis. Every other script refuses to run without its mark, so
 * that an emptied Redis is not taken for one without tokens.
 */
export const BEGIN = `
redis.call('SET', ARGV[1] .. 'meta', ARGV[2], 'NX')
return redis.call('GET', ARGV[1] .. 'meta')
`;

/** Returns Redis's clock; nothing for a user without the permission for it. */
const CLOCK = `local time = redis.pcall('TIME')
return time.err and {} or time
`;

export const maintenanceScripts = {
  /** An empty value removes the mark. */
  setRestoring: `
if ARGV[3] == '' then return redis.call('DEL', P(ARGV[2])) end
return redis.call('SET', P(ARGV[2]), ARGV[3])
`,
  leaveMark: `return redis.call('SET', P(ARGV[2]), ARGV[3], 'PX', 60000)`,
  probeWrite: `return redis.call('SET', P('probe'), ARGV[2])`,
  /**
   * Writes a key of which one invalidation link is notified. Returns Redis's
   * clock: seconds and microseconds.
   */
  probeLink: `
useReserve()
redis.call('SET', P(ARGV[2]), ARGV[3], 'PX', 10000)
${CLOCK}`,
  /** Returns Redis's clock: seconds and microseconds. */
  clock: `
${CLOCK}`,
  removeExpired: `
useReserve()
local now, tokensBefore, limit = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local removed = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P('expiry:tokens'), '-inf', '(' .. tokensBefore, 'LIMIT', 0, limit)) do
  local token = tokenById(id)
  if token then removeToken(token) else redis.call('ZREM', P('expiry:tokens'), id) end
  removed = removed + 1
end
if removed < limit then
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', P('expiry:others'), '-inf', now, 'LIMIT', 0, limit - removed)) do
    local session = string.sub(member, 1, 8) == 'session:' and sessionAt(string.sub(member, 9))
    if session then removeSession(session)
    else redis.call('DEL', P(member)) end
    redis.call('ZREM', P('expiry:others'), member)
    removed = removed + 1
  end
end
return removed
`,
  /** Replaces the signing keys of the previous revision. */
  replaceSigningKeys: `
local known = read(P('signing_keys'))
if (known and known.revision or 0) ~= cjson.decode(ARGV[2]).revision - 1 then return 0 end
redis.call('SET', P('signing_keys'), ARGV[2])
return 1
`,
  removeSigningKeys: `return redis.call('DEL', P('signing_keys'))`,
};
