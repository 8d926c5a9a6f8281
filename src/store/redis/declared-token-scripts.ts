/** Functions for tokens that a directory file declares: `isTaken`, `putDeclared`, `revokeDeclared`. */
export const DECLARED_TOKENS = `
local function isForbidden(name) return redis.call('SISMEMBER', P('revoked'), name) == 1 end
-- An id whose record is gone was revoked by a Latchkey that knows nothing of declared tokens.
local function isRevoked(token)
  local isGone = redis.call('SISMEMBER', P('declared'), token.id) == 1 and redis.call('EXISTS', P('id:' .. token.id)) == 0
  return isGone or isForbidden('id:' .. token.id) or isForbidden(token.digest)
end
local function isTaken(token)
  if isRevoked(token) then return false end
  local before = tokenById(token.id)
  if before and (not before.declared or before.userId ~= token.userId) then return true end
  return not (before and before.digest == token.digest) and redis.call('EXISTS', P('token:' .. token.digest)) == 1
end
local function putDeclared(token, text, change)
  if isRevoked(token) then return end
  local before = tokenById(token.id)
  if before then removeIndexed(before) end
  addToken(token, text)
  if before then
    tellReplaced(before, token, text)
    noteEnd(change)
  else
    tellCreated(token, text)
  end
  if before and before.digest ~= token.digest then forbid(before.digest) end
end
local function revokeDeclared(id)
  local token = tokenById(id)
  if token and token.declared then revokeToken(token) end
end
`;
