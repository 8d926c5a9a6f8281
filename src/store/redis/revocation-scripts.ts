import { BATCH } from './batches.js';

/** What ended is kept for so long, in the store and by those who know of it. */
export const REMEMBERED_SECONDS = 3_600;

export const revocationScripts = {
  /** Names of what ended since a time, in seconds, with their times: a batch of them from a position on. */
  readRevocations: `
return redis.call('ZRANGEBYSCORE', P('revocations'), ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', ARGV[3], ${BATCH})
`,
  /**
   * Ends once more what ended before, by name (\`store/revocations.ts\`), and tells everyone of it. Returns the names of those that had come
   * back.
   */
  reapply: `
useReserve()
local back = {}
local again = {
  token = function(id)
    local token = tokenById(id)
    if token then removeToken(token) end
    return token
  end,
  legacy = function(digest)
    local token = read(P('token:' .. digest))
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
  session = function(digest) return removeSession(digest) == 1 end,
  user = function(rest)
    local at, id = string.match(rest, '^(%d+):(.*)$')
    local user = id and read(P('user:' .. id))
    if not user or user.locked or user.updatedAt >= tonumber(at) then return false end
    user.locked = true
    redis.call('SET', P('user:' .. id), cjson.encode(user))
    endSessions(id)
    redis.call('DEL', P('sudo:' .. id))
    return true
  end,
  suspended = function(rest)
    local at, id = string.match(rest, '^(%d+):(.*)$')
    local token, text = tokenById(id or '')
    if not token or token.updatedAt >= tonumber(at) then return false end
    local restrictions = type(token.restrictions) == 'table' and token.restrictions or {}
    restrictions.suspended = true
    -- Behind the others, these members count; the whole record would lose what tells an empty list from an empty object.
    local members = ',"restrictions":' .. cjson.encode(restrictions) .. ',"updatedAt":' .. at .. ',"v":2}'
    redis.call('SET', P('token:' .. token.digest), string.sub(text, 1, -2) .. members)
    return true
  end,
}
for i = 2, #ARGV do
  local kind, rest = string.match(ARGV[i], '^(%a+):(.*)$')
  if kind and again[kind] then
    local came = again[kind](rest)
    if came then back[#back + 1] = ARGV[i] end
    if came or not redis.call('ZSCORE', P('revocations'), ARGV[i]) then noteEnd(ARGV[i]) end
  end
end
return back
`,
  /** Which tokens of some ids are not there. */
  missingTokens: `
local missing = {}
for i = 2, #ARGV do if redis.call('EXISTS', P('id:' .. ARGV[i])) == 0 then missing[#missing + 1] = ARGV[i] end end
return missing
`,
};
