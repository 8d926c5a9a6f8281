// What the store does with tokens, each in one atomic step; how these scripts are called is in scripts.ts.

export const CREATE_TOKEN = `
local token = cjson.decode(ARGV[2])
local limit, now = tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('EXISTS', P('user:' .. token.userId)) == 0 then return 'owner_gone' end
if limit then
  local active = 0
  for _, id in ipairs(redis.call('SMEMBERS', P('tokens:' .. token.userId))) do
    if isActive(tokenById(id), now) then active = active + 1 end
  end
  if active >= limit then return 'limit_reached' end
end
addToken(token, ARGV[2])
return 'created'
`;

/** Tokens by id with their last uses; ids that are gone are left out. */
export const READ_TOKENS = `
local found = {}
for i = 2, #ARGV do
  local _, text = tokenById(ARGV[i])
  if text then
    found[#found + 1] = text
    found[#found + 1] = redis.call('HGET', P('uses'), ARGV[i]) or ''
  end
end
return found
`;

export const REVOKE = `
local tokens, missing = {}, {}
for i = 2, #ARGV do
  local token = tokenById(ARGV[i])
  if token then tokens[#tokens + 1] = token else missing[#missing + 1] = ARGV[i] end
end
if #missing > 0 then return missing end
for _, token in ipairs(tokens) do
  removeToken(token)
  if token.kind == 'legacy_key' then redis.call('SADD', P('revoked'), token.digest) end
end
return {}
`;

export const FILTER_NEW = `
local fresh = {}
for i = 2, #ARGV do if isNew(ARGV[i]) then fresh[#fresh + 1] = ARGV[i] end end
return fresh
`;

/** Imports tokens as a directory does: those that are known or were revoked are left alone. Returns the ids added. */
export const IMPORT_TOKENS = `
local added = {}
for i = 2, #ARGV do
  local token = cjson.decode(ARGV[i])
  if isNew(token.digest) then addToken(token, ARGV[i]) added[#added + 1] = token.id end
end
return added
`;

/** Takes tokens away without remembering them as revoked. */
export const REMOVE_TOKENS = `
for i = 2, #ARGV do
  local token = tokenById(ARGV[i])
  if token then removeToken(token) end
end
return 0
`;

export const ADD_REVOKED = `
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
    if not known or cjson.decode(known).at < cjson.decode(text).at then redis.call('HSET', hash, key, text) end
  end
end
return 0
`;

/** All tokens less the expired ones. */
export const COUNT_ACTIVE = `
local all = tonumber(redis.call('GET', P('count:tokens')) or '0')
return all - redis.call('ZCOUNT', P('expiry:tokens'), '-inf', ARGV[2])
`;
