import { FAMILY, PLACE } from '../../domain/token.js';
import { DIGEST_PART } from '../records.js';
import { announcementPrefix, REMEMBERED_SECONDS } from './revocation-scripts.js';

/**
 * Returns Lua functions that several scripts use. `P` prefixes a key; others write and remove
 * tokens with their indexes.
 *
 * @param webhooks the functions that queue events (`webhook-events.ts`)
 * @param database number of the database
 */
export function prelude(webhooks: string, database: number): string {
  return `${BEGINNING}local announcement = '${announcementPrefix(database)}'\n${webhooks}${RECORDS}`;
}

/** Commands that scripts use and that change nothing. */
const READS =
  'EXISTS GET HGET HGETALL HMGET INFO LINDEX LLEN LRANGE SCARD SISMEMBER SMEMBERS SSCAN TIME ZCARD ZCOUNT ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZSCORE';

const BEGINNING = `
-- Notes the latest key and which commands were made, for the report of a failure.
local server, latestKey, made = redis, '', {}
local redis = {pcall = server.pcall, error_reply = server.error_reply}
function redis.call(name, ...)
  latestKey = ... or latestKey
  local answer = server.call(name, ...)
  made[name] = true
  return answer
end
local function hasWritten()
  for name in pairs(made) do
    if not string.find(' ${READS} ', ' ' .. name .. ' ', 1, true) then return true end
  end
  return false
end
local prefix = ARGV[1]
local function P(name) return prefix .. name end
if redis.call('EXISTS', P('meta')) == 0 then
  return redis.error_reply('LATCHKEY the store is empty: start a server or run "latchkey apply" to begin one, or restore it')
end
-- When its memory is full, Redis refuses what takes more only until a script has written: a removal opens what is kept for it.
local function useReserve() server.call('DEL', P('reserve')) end
local function read(key) local text = redis.call('GET', key) return text and cjson.decode(text) end
local function decoded(text)
  local isJson, record = pcall(cjson.decode, text)
  return isJson and type(record) == 'table' and record or nil
end
-- A record and its text. A damaged one is refused by its kind and id (failures.ts).
local function recordAt(kind, id, key, isWhole)
  local text = redis.call('GET', key)
  if not text then return nil end
  local record = decoded(text)
  if not record or not isWhole(record) then error('UNREADABLE ' .. kind .. ' ' .. id, 0) end
  return record, text
end
-- For work on many records after a failover, which one damaged record must not prevent.
local function unlessUnreadable(work, argument)
  local isDone, result = pcall(work, argument)
  if isDone then return result end
  if type(result) ~= 'string' or not string.find(result, '^UNREADABLE ') then error(result, 0) end
end
local function tokenText(id)
  local digest = redis.call('GET', P('id:' .. id))
  return digest and redis.call('GET', P('token:' .. digest))
end
local function tokenById(id)
  local digest = redis.call('GET', P('id:' .. id))
  if not digest then return nil end
  return recordAt('token', id, P('token:' .. digest), function(token)
    local isKnown = token.kind == 'token' or token.kind == 'legacy_key'
    return isKnown and token.id == id and token.digest == digest and type(token.userId) == 'string' and type(token.updatedAt) == 'number'
  end)
end
-- Before any of them is changed: a damaged one changes nothing.
local function tokensById(ids)
  local found = {}
  for _, id in ipairs(ids) do found[#found + 1] = tokenById(id) end
  return found
end
`;

const RECORDS = `
local function addToken(token, text)
  redis.call('SET', P('token:' .. token.digest), text)
  redis.call('SET', P('id:' .. token.id), token.digest)
  redis.call('INCR', P('count:tokens'))
  redis.call('SADD', P('tokens:' .. token.userId), token.id)
  if type(token.expiresAt) == 'number' then redis.call('ZADD', P('expiry:tokens'), token.expiresAt, token.id) end
  if token.kind == 'legacy_key' then redis.call('INCR', P('legacy_keys')) end
  if token.predecessorId then redis.call('ZADD', P('successors'), 0, token.id) end
  if token.declared then redis.call('SADD', P('declared'), token.id) end
  if token.rotated and type(token.expiresAt) == 'number' then redis.call('ZADD', P('overlaps'), token.expiresAt, token.id) end
end
-- A record without its last use and what tells that it is declared: it goes, or another one takes its place.
local function removeIndexed(token)
  redis.call('DEL', P('token:' .. token.digest), P('id:' .. token.id))
  redis.call('DECR', P('count:tokens'))
  redis.call('SREM', P('tokens:' .. token.userId), token.id)
  redis.call('ZREM', P('expiry:tokens'), token.id)
  redis.call('ZREM', P('overlaps'), token.id)
  if token.kind == 'legacy_key' then redis.call('DECR', P('legacy_keys')) end
end
local function removeToken(token)
  tellRemoved(token)
  removeIndexed(token)
  redis.call('HDEL', P('uses'), token.id)
  redis.call('ZREM', P('successors'), token.id)
  redis.call('SREM', P('declared'), token.id)
end
-- The time by which records are removed: the clock of a sidecar may be ahead of that of Redis.
local function earlier(now)
  local time = redis.pcall('TIME')
  return time.err and now or math.min(now, tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
end
-- What ends for good is kept apart for an hour and told by name, so that those who know of it can end it again.
local ended = {}
local function noteEnd(name)
  local time = redis.pcall('TIME')
  local now = time.err and 0 or tonumber(time[1])
  ended[#ended + 1] = name
  redis.call('ZADD', P('revocations'), now, name)
  redis.call('ZREMRANGEBYSCORE', P('revocations'), '-inf', now - ${REMEMBERED_SECONDS})
  redis.call('SET', P(announcement .. name), '')
  redis.call('DEL', P(announcement .. name))
end
-- Digests and other names by which what was revoked never comes back (token-store.ts).
local function forbid(name)
  redis.call('SADD', P('revoked'), name)
  noteEnd('legacy:' .. name)
end
local function revokeToken(token)
  removeToken(token)
  noteEnd('token:' .. token.id)
  if token.declared then forbid('id:' .. token.id) end
  if token.declared or token.kind == 'legacy_key' then forbid(token.digest) end
end
local function isThere(id) return redis.call('EXISTS', P('id:' .. id)) == 1 end
-- The id of a token, unless it is gone, and the ids of those that came from it by rotation (domain/token.ts), up to a number of
-- them; -1 for all.
local function familyOf(id, limit)
  local first, last = '(' .. string.sub(id, 1, ${PLACE}) .. '~', '(' .. string.sub(id, 1, ${FAMILY}) .. '~'
  local family = redis.call('ZRANGEBYLEX', P('successors'), first, last, 'LIMIT', 0, limit)
  if isThere(id) then table.insert(family, 1, id) end
  return family
end
-- Without reading its record.
local function expiryOf(id) return tonumber(redis.call('ZSCORE', P('expiry:tokens'), id) or 'inf') end
local function sessionAt(digest)
  return recordAt('session', string.sub(digest, 1, ${DIGEST_PART}), P('session:' .. digest), function(session)
    return session.digest == digest and type(session.userId) == 'string' and type(session.endsAt) == 'number' and type(session.lastSeenAt) == 'number'
  end)
end
local function removeSession(session)
  redis.call('DEL', P('session:' .. session.digest))
  redis.call('HDEL', P('session_uses'), session.digest)
  redis.call('SREM', P('sessions:' .. session.userId), session.digest)
  redis.call('ZREM', P('expiry:others'), 'session:' .. session.digest)
end
local function addSession(session, text)
  redis.call('SET', P('session:' .. session.digest), text)
  redis.call('SADD', P('sessions:' .. session.userId), session.digest)
  redis.call('ZADD', P('expiry:others'), math.min(session.endsAt, session.idleEndsAt), 'session:' .. session.digest)
end
local function sessionsOf(userId)
  local found = {}
  for _, digest in ipairs(redis.call('SMEMBERS', P('sessions:' .. userId))) do found[#found + 1] = sessionAt(digest) end
  return found
end
-- Returns the sessions that ended, each with its last use.
local function endSessions(sessions)
  local gone = {}
  for _, session in ipairs(sessions) do
    gone[#gone + 1] = redis.call('GET', P('session:' .. session.digest))
    gone[#gone + 1] = redis.call('HGET', P('session_uses'), session.digest) or ''
    removeSession(session)
    noteEnd('session:' .. session.digest)
  end
  return gone
end
local function userById(id)
  return recordAt('user', id, P('user:' .. id), function(user)
    return type(user.loginKey) == 'string' and type(user.customerId) == 'string' and type(user.updatedAt) == 'number'
  end)
end
local function isAsVerified(owner)
  local user = userById(owner.id)
  if not user then return false end
  local samePassword = user.passwordHash == owner.passwordHash or user.rehashOf == owner.rehashOf
  return samePassword and user.customerId == owner.customerId and user.createdAt == owner.createdAt
    and user.otpSecret == owner.otpSecret and user.locked == owner.locked
end
local function isNew(digest)
  return redis.call('EXISTS', P('token:' .. digest)) == 0 and redis.call('SISMEMBER', P('revoked'), digest) == 0
end
`;
