// Scripts for tokens, each one atomic step. How they are called is in scripts.ts.
import { BATCH } from './batches.js';
import { readingMany } from './read-scripts.js';
import { REFUSE_IF_RECOVERING } from './recovery-scripts.js';

/**
 * Lua function that counts a user's active tokens: those that count towards a
 * limit, and those in their overlap.
 */
const COUNTED_TOKENS = `
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

/** Lua function that removes a user's expired tokens, earliest expiry first, until one more fits. */
const REMOVE_EXCESS = `
local function removeExcess(userId, stored, now)
  now = earlier(now)
  local excess = redis.call('SCARD', P('tokens:' .. userId)) - stored + 1
  if excess <= 0 then return true end
  local expired = {}
  for _, id in ipairs(redis.call('SMEMBERS', P('tokens:' .. userId))) do
    local at = expiryOf(id)
    if at <= now then expired[#expired + 1] = {id = id, at = at} end
  end
  if #expired < excess then return false end
  table.sort(expired, function(a, b) return a.at < b.at end)
  local ids = {}
  for i = 1, excess do ids[i] = expired[i].id end
  for _, token in ipairs(tokensById(ids)) do removeToken(token) end
  return true
end
`;

export const tokenScripts = {
  createToken: `
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
`,
  /**
   * Replaces the records of tokens, all or none. Arguments: a webhook event or nothing, and of each
   * token the record, what it is based on, and the name that announces the change, like a revocation.
   */
  updateToken: `
useReserve()
local tokens = {}
for i = 3, #ARGV, 3 do
  tokens[i] = cjson.decode(ARGV[i])
  local known = tokenById(tokens[i].id)
  if not known and i == 3 then
    ${REFUSE_IF_RECOVERING}
    return 'not_found'
  end
  if not known or known.updatedAt ~= tonumber(ARGV[i + 1]) then return 'changed_meanwhile' end
end
for i = 3, #ARGV, 3 do
  redis.call('SET', P('token:' .. tokens[i].digest), ARGV[i])
  noteEnd(ARGV[i + 2])
end
if ARGV[2] ~= '' then tellToken(ARGV[2], tokens[3], ARGV[3]) end
return 'updated'
`,
  /** Returns ids of tokens, each with the record and the last use; missing ones are left out. */
  readTokens: readingMany(`
  local text = tokenText(ARGV[i])
  if text then add(ARGV[i]) add(text) add(redis.call('HGET', P('uses'), ARGV[i]) or '') end
  if not text and #ARGV == 2 then ${REFUSE_IF_RECOVERING} end
`),
  /** Returns a token and those that came from it, up to a number of them, as `readTokens` does. */
  readFamily: `
local found = {}
for _, id in ipairs(familyOf(ARGV[2], ARGV[3])) do
  for _, text in ipairs({id, tokenText(id), redis.call('HGET', P('uses'), id) or ''}) do found[#found + 1] = text end
end
if #found == 0 then ${REFUSE_IF_RECOVERING} end
return found
`,
  /** Counts the tokens of some users. */
  countTokens: `
local count = 0
for i = 2, #ARGV do count = count + redis.call('SCARD', P('tokens:' .. ARGV[i])) end
return count
`,
  /** Arguments: the number of ids that come from no other one, those, and the others. */
  revoke: `
useReserve()
local missing, family, revoked = {}, {}, {}
for i = 3, #ARGV do if #familyOf(ARGV[i], 1) == 0 then missing[#missing + 1] = ARGV[i] end end
if #missing > 0 then
  ${REFUSE_IF_RECOVERING}
  return {missing, {}}
end
for i = 3, ARGV[2] + 2 do
  for _, id in ipairs(familyOf(ARGV[i], -1)) do family[#family + 1] = id end
end
for _, token in ipairs(tokensById(family)) do
  revokeToken(token)
  revoked[#revoked + 1] = token.id
end
return {{}, revoked}
`,
  filterNew: `
local fresh = {}
for i = 2, #ARGV do if isNew(ARGV[i]) then fresh[#fresh + 1] = ARGV[i] end end
return fresh
`,
  filterRevoked: `
local found = {}
for i = 2, #ARGV do if redis.call('SISMEMBER', P('revoked'), ARGV[i]) == 1 then found[#found + 1] = ARGV[i] end end
return found
`,
  /**
   * Imports tokens as a directory change does: known and revoked ones are
   * skipped. Returns the ids added.
   */
  importTokens: `
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
`,
  /** Removes tokens without recording a revocation. */
  removeTokens: `
useReserve()
for _, token in ipairs(tokensById({unpack(ARGV, 2)})) do removeToken(token) end
return 0
`,
  addRevoked: `
useReserve()
for i = 2, #ARGV do redis.call('SADD', P('revoked'), ARGV[i]) end
return 0
`,
  /** Returns the number of all tokens minus the expired ones. */
  countActive: `
local all = tonumber(redis.call('GET', P('count:tokens')) or '0')
return all - redis.call('ZCOUNT', P('expiry:tokens'), '-inf', ARGV[2])
`,
  /**
   * Returns the ids of tokens that expire after one time and up to another, with their expiries. It
   * reads one batch from an offset and leaves out rotated tokens. The answer begins with the size
   * of the batch before that.
   */
  listExpiring: `
-- By rank: LIMIT would walk over all that it skips.
local index = P('expiry:tokens')
local first = redis.call('ZCOUNT', index, '-inf', ARGV[2]) + ARGV[4]
local after = math.min(redis.call('ZCOUNT', index, '-inf', ARGV[3]), first + ${BATCH})
local rows = first < after and redis.call('ZRANGE', index, first, after - 1, 'WITHSCORES') or {}
local found = {}
for i = 1, #rows, 2 do
  if not redis.call('ZSCORE', P('overlaps'), rows[i]) then
    found[#found + 1] = rows[i]
    found[#found + 1] = rows[i + 1]
  end
end
return {#rows / 2, found}
`,
  /**
   * Claims the warnings of those tokens whose current expiry was not claimed yet. A claim is kept
   * until a day after that expiry.
   */
  claimWarnings: `
local claimed = {}
tokensById({unpack(ARGV, 3)})
for i = 3, #ARGV do
  local at, key = expiryOf(ARGV[i]), P('warned:' .. ARGV[i])
  local expiry = string.format('%.0f', at)
  if at ~= math.huge and redis.call('GET', key) ~= expiry then
    local left = math.max(0, at - tonumber(ARGV[2]))
    redis.call('SET', key, expiry, 'PX', string.format('%.0f', left + 86400000))
    tellExpiring(ARGV[i])
    claimed[#claimed + 1] = ARGV[i]
  end
end
return claimed
`,
};

/** Lua function that compares two records. */
const IS_SAME = `
local function isSame(a, b)
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
  for key, value in pairs(a) do if key ~= 'v' and not isSame(value, b[key]) then return false end end
  for key in pairs(b) do if key ~= 'v' and a[key] == nil then return false end end
  return true
end
`;

export const rotationScripts = {
  /**
   * Rotates a token. Arguments: the records of the old token before and after, and of the
   * replacement; the owner, the limits and the time.
   */
  rotateToken: `
${IS_SAME}
${COUNTED_TOKENS}
${REMOVE_EXCESS}
local before, old, owner = cjson.decode(ARGV[2]), cjson.decode(ARGV[3]), cjson.decode(ARGV[5])
local active, stored, now = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local found = tokenById(before.id)
if not found or not isSame(found, before) then return 'changed' end
if owner.id ~= before.userId or not isAsVerified(owner) then return 'owner_changed' end
if active then
  local _, inOverlap = countedTokens(owner.id, now)
  if inOverlap >= active then return 'limit_reached' end
end
if stored and not removeExcess(owner.id, stored, now) then return 'full' end
removeIndexed(found)
addToken(old, ARGV[3])
tellReplaced(before, old, ARGV[3])
local replacement = cjson.decode(ARGV[4])
addToken(replacement, ARGV[4])
tellCreated(replacement, ARGV[4])
noteEnd('ends:' .. string.format('%.0f', old.expiresAt) .. ':' .. old.id)
return 'rotated'
`,
  countInOverlap: `return redis.call('ZCOUNT', P('overlaps'), '(' .. ARGV[2], '+inf')`,
  claimEndedOverlaps: `
local found, due = {}, redis.call('ZRANGEBYSCORE', P('overlaps'), '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[4])
for _, token in ipairs(tokensById(due)) do
  redis.call('ZADD', P('overlaps'), ARGV[3], token.id)
  found[#found + 1] = token.id
  found[#found + 1] = tokenText(token.id)
  found[#found + 1] = redis.call('HGET', P('uses'), token.id) or ''
end
return found
`,
  finishOverlaps: `
useReserve()
for i = 2, #ARGV do redis.call('ZREM', P('overlaps'), ARGV[i]) end
return 0
`,
};
