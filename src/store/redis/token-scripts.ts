// What the store does with tokens, each in one atomic step; how these scripts are called is in scripts.ts.
import { readingMany } from './reading-many.js';
import { REFUSE_IF_RECOVERING } from './recovery-scripts.js';

/** The active tokens of a user: those that a limit counts, and those in their overlap. */
export const COUNTED_TOKENS = `
local function countedTokens(userId, now)
  local counted, inOverlap = 0, 0
  for _, id in ipairs(redis.call('SMEMBERS', P('tokens:' .. userId))) do
    if expiryOf(id) > now then
      if redis.call('ZSCORE', P('overlaps'), id) then inOverlap = inOverlap + 1 else counted = counted + 1 end
    end
  end
  return counted, inOverlap
end
`;

/** Removes expired tokens of a user, the first to end before the others, until one more fits. */
export const REMOVE_EXCESS = `
local function removeExcess(userId, stored, now)
  local excess = redis.call('SCARD', P('tokens:' .. userId)) - stored + 1
  if excess <= 0 then return true end
  local expired = {}
  for _, id in ipairs(redis.call('SMEMBERS', P('tokens:' .. userId))) do
    local at = expiryOf(id)
    if at <= now then expired[#expired + 1] = {id = id, at = at} end
  end
  if #expired < excess then return false end
  table.sort(expired, function(a, b) return a.at < b.at end)
  for i = 1, excess do removeToken(tokenById(expired[i].id)) end
  return true
end
`;

export const CREATE_TOKEN = `
${COUNTED_TOKENS}
${REMOVE_EXCESS}
local token = cjson.decode(ARGV[2])
local limit, stored, now = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not isAsVerified(cjson.decode(ARGV[3])) then return 'owner_changed' end
if limit and countedTokens(token.userId, now) >= limit then return 'limit_reached' end
if stored and not removeExcess(token.userId, stored, now) then return 'full' end
addToken(token, ARGV[2])
tellCreated(token, ARGV[2])
return 'created'
`;

/** Replaces a token's record. The change is told by name, as what ends for good is. */
export const UPDATE_TOKEN = `
useReserve()
local token = cjson.decode(ARGV[2])
local known = tokenById(token.id)
if not known then
  ${REFUSE_IF_RECOVERING}
  return 'not_found'
end
if known.updatedAt ~= tonumber(ARGV[3]) then return 'changed_meanwhile' end
redis.call('SET', P('token:' .. known.digest), ARGV[2])
noteEnd(ARGV[4])
return 'updated'
`;

/** Tokens by id with their last uses; ids that are gone are left out. */
export const READ_TOKENS = readingMany(`
  local _, text = tokenById(ARGV[i])
  if text then add(text) add(redis.call('HGET', P('uses'), ARGV[i]) or '') end
  if not text and #ARGV == 2 then ${REFUSE_IF_RECOVERING} end
`);

/** How many tokens some users have. */
export const COUNT_TOKENS = `
local count = 0
for i = 2, #ARGV do count = count + redis.call('SCARD', P('tokens:' .. ARGV[i])) end
return count
`;

export const REVOKE = `
useReserve()
local tokens, missing = {}, {}
for i = 2, #ARGV do
  local token = tokenById(ARGV[i])
  if token then tokens[#tokens + 1] = token else missing[#missing + 1] = ARGV[i] end
end
if #missing > 0 then
  ${REFUSE_IF_RECOVERING}
  return missing
end
for _, token in ipairs(tokens) do revokeToken(token) end
return {}
`;

export const FILTER_NEW = `
local fresh = {}
for i = 2, #ARGV do if isNew(ARGV[i]) then fresh[#fresh + 1] = ARGV[i] end end
return fresh
`;

export const FILTER_REVOKED = `
local found = {}
for i = 2, #ARGV do if redis.call('SISMEMBER', P('revoked'), ARGV[i]) == 1 then found[#found + 1] = ARGV[i] end end
return found
`;

/** Imports tokens as a directory does: those that are known or were revoked are left alone. Returns the ids added. */
export const IMPORT_TOKENS = `
local added = {}
for i = 2, #ARGV do
  local token = cjson.decode(ARGV[i])
  if isNew(token.digest) then
    addToken(token, ARGV[i])
    tellCreated(token, ARGV[i])
    added[#added + 1] = token.id
  end
end
return added
`;

/** Takes tokens away without remembering them as revoked. */
export const REMOVE_TOKENS = `
useReserve()
for i = 2, #ARGV do
  local token = tokenById(ARGV[i])
  if token then removeToken(token) end
end
return 0
`;

export const ADD_REVOKED = `
useReserve()
for i = 2, #ARGV do redis.call('SADD', P('revoked'), ARGV[i]) end
return 0
`;

/** Last uses: kind (`token` or `session`), key and record, in turn. An older one never replaces a newer one. */
export const RECORD_USES = `
for i = 2, #ARGV, 3 do
  local kind, key, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local hash = kind == 'token' and P('uses') or P('session_uses')
  local owner = kind == 'token' and P('id:' .. key) or P('session:' .. key)
  if redis.call('EXISTS', owner) == 1 then
    local known = redis.call('HGET', hash, key)
    local use = cjson.decode(text)
    if not known or cjson.decode(known).at < use.at then
      redis.call('HSET', hash, key, text)
      if kind == 'session' then
        redis.call('ZADD', P('expiry:others'), sessionOverAt(read(owner), use), 'session:' .. key)
      end
    end
  end
end
return 0
`;

/** All tokens less the expired ones. */
export const COUNT_ACTIVE = `
local all = tonumber(redis.call('GET', P('count:tokens')) or '0')
return all - redis.call('ZCOUNT', P('expiry:tokens'), '-inf', ARGV[2])
`;
