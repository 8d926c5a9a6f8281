import { COST_OF } from './maintenance-scripts.js';

/**
 * Lua functions for tokens that a directory file declares: `isTaken`,
 * `putDeclared`, `revokeDeclared`.
 */
const DECLARED_TOKENS = `
local function isForbidden(name) return redis.call('SISMEMBER', P('revoked'), name) == 1 end
local function isRevoked(token) return isForbidden('id:' .. token.id) or isForbidden(token.digest) end
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

/**
 * Applies `Changes`, whose records are passed as strings. Everything is
 * checked before the first write.
 */
export const CHANGE = `
${COST_OF}
${DECLARED_TOKENS}
local function serviceById(id)
  return recordAt('service', id, P('service:' .. id), function(service) return type(service.customerId) == 'string' end)
end
local c, now = cjson.decode(ARGV[2]), earlier(tonumber(ARGV[3]))
for _, each in ipairs(c.basedOn) do
  local user = userById(each.id)
  local at = user and user.updatedAt or -1
  if at ~= each.updatedAt then return cjson.encode({reason = 'changed_meanwhile', userId = each.id}) end
end
local leaving = {}
for _, id in ipairs(c.removeTokens) do leaving[id] = true end
for _, id in ipairs(c.revokeDeclared) do leaving[id] = true end
local holders = {}
for _, userId in ipairs(c.removeUsers) do
  local ids = {}
  for _, id in ipairs(redis.call('SMEMBERS', P('tokens:' .. userId))) do
    if not leaving[id] and expiryOf(id) > now then ids[#ids + 1] = id end
  end
  if #ids > 0 then holders[#holders + 1] = {userId = userId, tokenIds = ids} end
end
if #holders > 0 then return cjson.encode({reason = 'active_tokens', users = holders}) end

local gone, taken = {}, {}
for _, id in ipairs(c.removeUsers) do gone[id] = true end
for _, user in ipairs(c.users) do gone[user.id] = true end
for _, user in ipairs(c.users) do
  local holder = redis.call('GET', P('login:' .. user.loginKey))
  local isHeld = holder and holder ~= user.id and not gone[holder] and redis.call('EXISTS', P('user:' .. holder)) == 1
  if isHeld or (taken[user.loginKey] or user.id) ~= user.id then
    return cjson.encode({reason = 'login_taken', login = user.login, userId = user.id})
  end
  taken[user.loginKey] = user.id
end
local known = {}
for _, id in ipairs(c.removeCustomers) do known[id] = false end
for _, customer in ipairs(c.customers) do known[customer.id] = true end
for _, id in ipairs(c.needs) do
  if known[id] == nil then known[id] = redis.call('EXISTS', P('customer:' .. id)) == 1 end
  if not known[id] then return cjson.encode({reason = 'unknown_customer', customerId = id}) end
end
if #c.removeCustomers > 0 then
  local leaving, servicesGone, kept = {}, {}, {}
  for _, id in ipairs(c.removeServices) do servicesGone[id] = true end
  for _, service in ipairs(c.services) do servicesGone[service.id] = true end
  for _, customer in ipairs(c.customers) do kept[customer.id] = true end
  local function count(ids, recordOf, index)
    for id in pairs(ids) do
      local record = recordOf(id)
      local set = record and index .. record.customerId
      if set then leaving[set] = (leaving[set] or 0) + 1 end
    end
  end
  count(gone, userById, 'users:')
  count(servicesGone, serviceById, 'services:')
  for _, id in ipairs(c.removeCustomers) do
    for _, set in ipairs({'users:' .. id, 'services:' .. id}) do
      if not kept[id] and redis.call('SCARD', P(set)) > (leaving[set] or 0) then
        return cjson.encode({reason = 'customer_in_use', customerId = id})
      end
    end
  end
end
local owners = {}
for _, id in ipairs(c.removeUsers) do owners[id] = false end
for _, user in ipairs(c.users) do owners[user.id] = true end
for _, id in ipairs(c.owners) do
  if owners[id] == nil then owners[id] = redis.call('EXISTS', P('user:' .. id)) == 1 end
  if not owners[id] then return cjson.encode({reason = 'unknown_user', userId = id}) end
end
for _, each in ipairs(c.declared) do
  if isTaken(cjson.decode(each.text)) then return cjson.encode({reason = 'token_taken', tokenId = each.id}) end
end
-- Everything is read before the first write: a damaged record changes nothing.
local tokensGone, usersGone, servicesBefore, before, ending, rehashed = tokensById(c.removeTokens), {}, {}, {}, {}, {}
for _, id in ipairs(c.removeUsers) do
  local user = userById(id)
  if user then
    user.id = id
    usersGone[#usersGone + 1] = user
    ending[id] = sessionsOf(id)
    for _, token in ipairs(tokensById(redis.call('SMEMBERS', P('tokens:' .. id)))) do
      if not leaving[token.id] then tokensGone[#tokensGone + 1] = token end
    end
  end
end
for _, id in ipairs(c.rehashed) do rehashed[id] = true end
for _, user in ipairs(c.users) do
  local old, new = userById(user.id), cjson.decode(user.text)
  before[user.id] = old
  if old and ((old.passwordHash ~= new.passwordHash and not rehashed[user.id]) or old.otpSecret ~= new.otpSecret or (new.locked and not old.locked)) then
    ending[user.id] = sessionsOf(user.id)
  end
end
for _, id in ipairs(c.revokeDeclared) do tokenById(id) end
for _, id in ipairs(c.removeServices) do servicesBefore[id] = serviceById(id) end
for _, service in ipairs(c.services) do servicesBefore[service.id] = serviceById(service.id) end
if c.checkOnly then return '' end
local addsNothing = #c.customers == 0 and #c.services == 0 and #c.tokens == 0 and #c.declared == 0
for _, user in ipairs(c.users) do addsNothing = addsNothing and redis.call('EXISTS', P('user:' .. user.id)) == 1 end
if addsNothing then useReserve() end
if c.transfer then noteEnd = function() end end

for _, token in ipairs(tokensGone) do removeToken(token) end
for _, id in ipairs(c.revokeDeclared) do revokeDeclared(id) end
for _, user in ipairs(usersGone) do
  local id = user.id
  endSessions(ending[id])
  redis.call('DEL', P('otp:' .. id), P('writes:' .. id), P('sudo:' .. id), P('user:' .. id), P('login:' .. user.loginKey))
  redis.call('SREM', P('users:' .. user.customerId), id)
  redis.call('SREM', P('pending_deletions'), id)
  -- Just after the record that is deleted, not the time: a user declared again by another clock is not locked.
  noteEnd('user:' .. string.format('%.0f', user.updatedAt + 1) .. ':' .. id)
end
local function removeService(id)
  local service = servicesBefore[id]
  if service then redis.call('SREM', P('services:' .. service.customerId), id) end
  redis.call('DEL', P('service:' .. id))
end
for _, id in ipairs(c.removeServices) do removeService(id) end
for _, id in ipairs(c.removeCustomers) do
  redis.call('DEL', P('customer:' .. id))
  redis.call('SREM', P('customers'), id)
end
for _, customer in ipairs(c.customers) do
  redis.call('SET', P('customer:' .. customer.id), customer.text)
  redis.call('SADD', P('customers'), customer.id)
end
for _, service in ipairs(c.services) do
  removeService(service.id)
  redis.call('SET', P('service:' .. service.id), service.text)
  redis.call('SADD', P('services:' .. service.customerId), service.id)
end
local cost = tonumber(redis.call('GET', P('password_cost')) or '0')
for _, user in ipairs(c.users) do
  local old = before[user.id]
  if old then
    redis.call('DEL', P('login:' .. old.loginKey))
    redis.call('SREM', P('users:' .. old.customerId), user.id)
  end
end
for _, user in ipairs(c.users) do
  redis.call('SET', P('user:' .. user.id), user.text)
  redis.call('SET', P('login:' .. user.loginKey), user.id)
  redis.call('SADD', P('users:' .. user.customerId), user.id)
  local old, new = before[user.id], cjson.decode(user.text)
  redis.call(new.deletionPending and 'SADD' or 'SREM', P('pending_deletions'), user.id)
  if costOf(new.passwordHash) > cost then
    cost = costOf(new.passwordHash)
    redis.call('SET', P('password_cost'), string.format('%.0f', cost))
  end
  if ending[user.id] then
    endSessions(ending[user.id])
    redis.call('DEL', P('sudo:' .. user.id))
  end
  local lockName = string.format('%.0f', new.updatedAt) .. ':' .. user.id
  -- Before the other name, with which the whole lock would be made again as one that the directory may undo.
  if old and new.lockedBy == 'operator' and old.lockedBy ~= 'operator' then noteEnd('operator:' .. lockName) end
  if old and new.locked and not old.locked then
    tellUserLocked(new)
    noteEnd('user:' .. lockName)
  end
end
for _, text in ipairs(c.tokens) do
  local token = cjson.decode(text)
  if isNew(token.digest) then
    addToken(token, text)
    tellCreated(token, text)
  end
end
for _, each in ipairs(c.declared) do putDeclared(cjson.decode(each.text), each.text, each.change) end
return ''
`;
