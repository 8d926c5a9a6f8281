// What the store does with sessions and with those who log in, each in one atomic step; how these scripts are called is in scripts.ts.

export const loginScripts = {
  /** Returns the sessions that ended for the limit, with their last uses. */
  createSession: `
local session = cjson.decode(ARGV[2])
if not isAsVerified(cjson.decode(ARGV[3])) then return 'owner_changed' end
if ARGV[5] ~= '' then
  local login = cjson.decode(ARGV[5])
  for _, name in ipairs(login.logouts) do
    local noted = redis.call('HMGET', P('logout:' .. name), 'issuedAt', 'receivedAt')
    if noted[1] and (login.issuedAt < tonumber(noted[1]) or login.begunAt <= tonumber(noted[2])) then return 'logged_out' end
  end
end
local limit, answer = tonumber(ARGV[4]), {}
removeSession(session.digest)
if limit and redis.call('SCARD', P('sessions:' .. session.userId)) >= limit then
  local known = {}
  for _, digest in ipairs(redis.call('SMEMBERS', P('sessions:' .. session.userId))) do
    local text = redis.call('GET', P('session:' .. digest))
    if text then
      local use = redis.call('HGET', P('session_uses'), digest)
      local at = math.max(cjson.decode(text).lastSeenAt, use and cjson.decode(use).at or 0)
      known[#known + 1] = {digest = digest, at = at, text = text, use = use or ''}
    end
  end
  table.sort(known, function(a, b) return a.at > b.at end)
  for i = limit, #known do
    answer[#answer + 1] = known[i].text
    answer[#answer + 1] = known[i].use
    removeSession(known[i].digest)
    noteEnd('session:' .. known[i].digest)
  end
end
addSession(session, ARGV[2])
return answer
`,
  /** Of two of one name the later one counts. They are removed in the background. */
  noteLogouts: `
useReserve()
for _, logout in ipairs(cjson.decode(ARGV[2])) do
  local key = P('logout:' .. logout.name)
  for _, field in ipairs({'issuedAt', 'receivedAt'}) do
    local before = tonumber(redis.call('HGET', key, field) or 0)
    redis.call('HSET', key, field, string.format('%.0f', math.max(before, logout[field])))
  end
  local before = tonumber(redis.call('ZSCORE', P('expiry:others'), 'logout:' .. logout.name) or 0)
  redis.call('ZADD', P('expiry:others'), math.max(before, tonumber(ARGV[3])), 'logout:' .. logout.name)
end
return 0
`,
  endSession: `
useReserve()
local count = removeSession(ARGV[2])
if count == 1 then noteEnd('session:' .. ARGV[2]) end
return count
`,
  endSessions: `
useReserve()
return endSessions(ARGV[2], ARGV[3])
`,
  /** Fields by credential. Those that are over go with the next one, and all of them with the last. */
  grantSudo: `
local owner = cjson.decode(ARGV[2])
if not isAsVerified(owner) then return 'owner_changed' end
local key, now, lasts = P('sudo:' .. owner.id), tonumber(ARGV[5]), cjson.decode(ARGV[4])['until']
local known = redis.call('HGETALL', key)
local last = lasts
for i = 1, #known, 2 do
  local other = cjson.decode(known[i + 1])['until']
  if other <= now then redis.call('HDEL', key, known[i]) elseif other > last then last = other end
end
redis.call('HSET', key, ARGV[3], ARGV[4])
redis.call('PEXPIRE', key, math.max(1, last - now))
return 'granted'
`,
  readSudo: `return redis.call('HGET', P('sudo:' .. ARGV[2]), ARGV[3])`,
};
