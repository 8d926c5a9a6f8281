import { BATCH } from './batches.js';

/** How long the store and the processes remember revocations, in seconds. */
export const REMEMBERED_SECONDS = 3_600;

/**
 * How much earlier revocations are read again, in seconds: longer than most losses of an
 * invalidation link.
 */
const OVERLAP_SECONDS = 300;

/**
 * Returns the prefix of the keys that announce revocations by name. It contains the number of the
 * database: Redis announces a changed key without it, to the clients of all databases.
 */
export function announcementPrefix(database: number): string {
  return database === 0 ? 'revocation:' : `revocation@${database}:`;
}

export const revocationScripts = {
  /**
   * Returns the names of what ended since a time, in seconds, with their times: one batch from an
   * offset. The time may come from another master, or from before the clock was set back, so what
   * ended shortly before is returned too.
   */
  readRevocations: `
local time = redis.pcall('TIME')
local since = tonumber(ARGV[2]) - ${OVERLAP_SECONDS}
if not time.err and since > tonumber(time[1]) then since = 0 end
return redis.call('ZRANGEBYSCORE', P('revocations'), since, '+inf', 'WITHSCORES', 'LIMIT', ARGV[3], ${BATCH})
`,
  /**
   * Reapplies revocations by name (`store/revocations.ts`) and notifies every process of them.
   * Returns the names of those that had come back.
   */
  reapply: `
useReserve()
local back = {}
local function lock(rest, by)
  local at, id = string.match(rest, '^(%d+):(.*)$')
  local user = id and userById(id)
  if not user or user.updatedAt >= tonumber(at) or (user.locked and (not by or user.lockedBy == by)) then return false end
  user.locked = true
  user.lockedBy = by or user.lockedBy
  redis.call('SET', P('user:' .. id), cjson.encode(user))
  local sessions = {}
  for _, digest in ipairs(redis.call('SMEMBERS', P('sessions:' .. id))) do sessions[#sessions + 1] = unlessUnreadable(sessionAt, digest) end
  endSessions(sessions)
  redis.call('DEL', P('sudo:' .. id))
  return true
end
local again = {
  token = function(id)
    local token = tokenById(id)
    if token then removeToken(token) end
    return token
  end,
  legacy = function(digest)
    local known = decoded(redis.call('GET', P('token:' .. digest)))
    local token = known and type(known.id) == 'string' and unlessUnreadable(tokenById, known.id)
    if token then removeToken(token) end
    return redis.call('SADD', P('revoked'), digest) == 1 or token
  end,
  ends = function(rest)
    local at, id = string.match(rest, '^(%d+):(.*)$')
    if not id or expiryOf(id) <= tonumber(at) then return false end
    local token, text = tokenById(id)
    if not token then return false end
    -- Encoded here, an empty list would come out as an object. Within a text of JSON a quote has a backslash before it.
    local shorter = string.gsub(text, '"expiresAt":[^,}]+', '"expiresAt":' .. at, 1)
    removeIndexed(token)
    addToken(cjson.decode(shorter), shorter)
    tellReplaced(token, cjson.decode(shorter), shorter)
    return true
  end,
  session = function(digest)
    local session = sessionAt(digest)
    if session then removeSession(session) end
    return session
  end,
  user = function(rest) return lock(rest) end,
  operator = function(rest) return lock(rest, 'operator') end,
  suspended = function(rest)
    local at, id = string.match(rest, '^(%d+):(.*)$')
    local token, text = tokenById(id or '')
    if not token or token.updatedAt >= tonumber(at) then return false end
    local restrictions = type(token.restrictions) == 'table' and token.restrictions or {}
    restrictions.suspended = true
    -- Behind the others, these members count; the whole record would lose what tells an empty list from an empty object.
    local members = ',"restrictions":' .. cjson.encode(restrictions) .. ',"updatedAt":' .. at .. '}'
    redis.call('SET', P('token:' .. token.digest), string.sub(text, 1, -2) .. members)
    return true
  end,
}
for i = 2, #ARGV do
  local kind, rest = string.match(ARGV[i], '^(%a+):(.*)$')
  if kind and again[kind] then
    local came = unlessUnreadable(again[kind], rest)
    if came then back[#back + 1] = ARGV[i] end
    if came or not redis.call('ZSCORE', P('revocations'), ARGV[i]) then noteEnd(ARGV[i]) end
  end
end
return back
`,
  /** Returns the ids of tokens that do not exist. */
  missingTokens: `
local missing = {}
for i = 2, #ARGV do if redis.call('EXISTS', P('id:' .. ARGV[i])) == 0 then missing[#missing + 1] = ARGV[i] end end
return missing
`,
};
