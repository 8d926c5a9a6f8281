import { MARK_MS } from './marks.js';
import { FIRST_WAIT_MS, MAX_DOUBLINGS, MAX_KNOWN_ADDRESSES, MIN_AHEAD_MS } from '../login-throttle-store.js';

// Scripts for sessions, logouts and sudo grants, each one atomic step. How
// they are called is in scripts.ts.

export const loginScripts = {
  /** Creates a session. Returns the sessions that ended for the limit, with their last uses. */
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
local same = sessionAt(session.digest)
if same then removeSession(same) end
if limit and redis.call('SCARD', P('sessions:' .. session.userId)) >= limit then
  local known = {}
  for _, each in ipairs(sessionsOf(session.userId)) do
    local used = decoded(redis.call('HGET', P('session_uses'), each.digest))
    known[#known + 1] = {session = each, at = math.max(each.lastSeenAt, used and tonumber(used.at) or 0)}
  end
  table.sort(known, function(a, b) return a.at > b.at end)
  local ending = {}
  for i = limit, #known do ending[#ending + 1] = known[i].session end
  answer = endSessions(ending)
end
addSession(session, ARGV[2])
return answer
`,
  /**
   * Records logouts; of two with the same name, the later times count. They
   * are removed in the background.
   */
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
local session = sessionAt(ARGV[2])
if session then endSessions({session}) end
return session and 1 or 0
`,
  endSessions: `
useReserve()
local others = {}
for _, session in ipairs(sessionsOf(ARGV[2])) do if session.digest ~= ARGV[3] then others[#others + 1] = session end end
return endSessions(others)
`,
  /**
   * Grants sudo: one field per credential. Expired fields are removed by the next grant, and the
   * key expires with its last field.
   */
  grantSudo: `
local owner = cjson.decode(ARGV[2])
if not isAsVerified(owner) then return 'owner_changed' end
local key, now, lasts = P('sudo:' .. owner.id), tonumber(ARGV[5]), cjson.decode(ARGV[4])['until']
local known = redis.call('HGETALL', key)
local last = lasts
for i = 1, #known, 2 do
  local grant = decoded(known[i + 1])
  local other = grant and tonumber(grant['until']) or 0
  if other <= now then redis.call('HDEL', key, known[i]) elseif other > last then last = other end
end
redis.call('HSET', key, ARGV[3], ARGV[4])
redis.call('PEXPIRE', key, math.max(1, last - now))
return 'granted'
`,
  readSudo: `return redis.call('HGET', P('sudo:' .. ARGV[2]), ARGV[3])`,
};

// Scripts for login attempts (`store/login-throttle-store.ts` explains them), each one atomic step.
// How they are called is in scripts.ts. Limits are passed as JSON, with digests as keys.

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
  local isAhead = known and known.lastAt - now > math.max(limit.forgetAfter, ${MIN_AHEAD_MS})
  if isAhead then known = nil end
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
  /**
   * Counts an attempt. The last argument is an id: an attempt that is sent again, because its reply
   * was lost, counts once and gets the same answer.
   */
  reserveAttempt: `${HELD_UNTIL}
if redis.call('EXISTS', P('done:' .. ARGV[4])) == 1 then return '0' end
if held > 0 then return string.format('%.0f', held) end
redis.call('SET', P('done:' .. ARGV[4]), '', 'PX', ${MARK_MS})
for _, limit in ipairs(limits) do
  local key, known = P('failure:' .. limit.key), countOf(limit)
  local count, before, forgetAt = 1, 0, now + limit.forgetAfter
  if known then
    count, before = known.count + 1, known.lastAt
    if limit.forgetFrom == 'first' then forgetAt = math.min(known.forgetAt, forgetAt) end
  end
  local function whole(number) return string.format('%.0f', number) end
  redis.call('HSET', key, 'count', count, 'lastAt', ARGV[3], 'before', whole(before), 'forgetAt', whole(forgetAt))
  redis.call('ZADD', P('expiry:others'), forgetAt, 'failure:' .. limit.key)
end
return '0'
`,
  /**
   * Settles an attempt: counts to delete, counts to subtract one from, and an address to remember.
   * An account's addresses expire with the last one. The last argument is an id: a settlement that
   * is sent again, because its reply was late, must not subtract another attempt.
   */
  settleAttempt: `
local settlement, now = cjson.decode(ARGV[2]), tonumber(ARGV[3])
useReserve()
if not redis.call('SET', P('done:' .. ARGV[4]), '', 'NX', 'PX', ${MARK_MS}) then return 0 end
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
    redis.call('HSET', P('failure:' .. key), 'lastAt', known[2])
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
