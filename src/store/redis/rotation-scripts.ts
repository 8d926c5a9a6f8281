import { COUNTED_TOKENS, REMOVE_EXCESS } from './token-scripts.js';

/** Of records that say the same; older ones may name a customer. */
const IS_SAME = `
local function isSame(a, b)
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
  for key, value in pairs(a) do if key ~= 'v' and key ~= 'customerId' and not isSame(value, b[key]) then return false end end
  for key in pairs(b) do if key ~= 'v' and key ~= 'customerId' and a[key] == nil then return false end end
  return true
end
`;

export const rotationScripts = {
  /** The texts of the old token before and after it and of the replacement; the owner, the limits and the time. */
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
  local counted, inOverlap = countedTokens(owner.id, now)
  if (before.rotated and counted or inOverlap) >= active then return 'limit_reached' end
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
local found = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P('overlaps'), '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[4])) do
  local _, text = tokenById(id)
  if text then
    redis.call('ZADD', P('overlaps'), ARGV[3], id)
    found[#found + 1] = text
    found[#found + 1] = redis.call('HGET', P('uses'), id) or ''
  else redis.call('ZREM', P('overlaps'), id) end
end
return found
`,
  finishOverlaps: `
useReserve()
for i = 2, #ARGV do redis.call('ZREM', P('overlaps'), ARGV[i]) end
return 0
`,
};
