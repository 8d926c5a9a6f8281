import { CHANGE } from './change-script.js';

/**
 * The Lua scripts of the Redis store. Each is one atomic step. KEYS[1] is any key of the deployment, which
 * routes the script to the slot that all keys share; ARGV[1] is their prefix.
 */

/** Functions that several scripts use: `P` prefixes a key, and tokens are written and removed with their indexes. */
const PRELUDE = `
local prefix = ARGV[1]
local function P(name) return prefix .. name end
if redis.call('EXISTS', P('meta')) == 0 then
  return redis.error_reply('LATCHKEY the store is empty: start a server or run "latchkey apply" to begin one, or restore it')
end
local function read(key) local text = redis.call('GET', key) return text and cjson.decode(text) end
local function tokenById(id)
  local digest = redis.call('GET', P('id:' .. id))
  if not digest then return nil end
  local text = redis.call('GET', P('token:' .. digest))
  return text and cjson.decode(text), text
end
local function addToken(token, text)
  redis.call('SET', P('token:' .. token.digest), text)
  redis.call('SET', P('id:' .. token.id), token.digest)
  redis.call('INCR', P('count:tokens'))
  redis.call('SADD', P('tokens:' .. token.userId), token.id)
  if type(token.expiresAt) == 'number' then redis.call('ZADD', P('expiry:tokens'), token.expiresAt, token.id) end
  if token.kind == 'legacy_key' then redis.call('INCR', P('legacy_keys')) end
end
local function removeToken(token)
  redis.call('DEL', P('token:' .. token.digest), P('id:' .. token.id))
  redis.call('DECR', P('count:tokens'))
  redis.call('SREM', P('tokens:' .. token.userId), token.id)
  redis.call('HDEL', P('uses'), token.id)
  redis.call('ZREM', P('expiry:tokens'), token.id)
  if token.kind == 'legacy_key' then redis.call('DECR', P('legacy_keys')) end
end
local function isActive(token, now) return token and not (type(token.expiresAt) == 'number' and token.expiresAt <= now) end
local function removeSession(digest)
  local session = read(P('session:' .. digest))
  if not session then return 0 end
  redis.call('DEL', P('session:' .. digest))
  redis.call('HDEL', P('session_uses'), digest)
  redis.call('SREM', P('sessions:' .. session.userId), digest)
  redis.call('ZREM', P('expiry:others'), 'session:' .. digest)
  return 1
end
local function endSessions(userId, except)
  local ended = 0
  for _, digest in ipairs(redis.call('SMEMBERS', P('sessions:' .. userId))) do
    if digest ~= except then ended = ended + removeSession(digest) end
  end
  return ended
end
local function isNew(digest)
  return redis.call('EXISTS', P('token:' .. digest)) == 0 and redis.call('SISMEMBER', P('revoked'), digest) == 0
end
`;

/** A record and the record of its owner: `token:` or `session:`, and the digest. */
const FIND = `
local found = redis.call('GET', P(ARGV[2] .. ARGV[3]))
if not found then return false end
local owner = redis.call('GET', P('user:' .. cjson.decode(found).userId))
if not owner then return false end
local use = ARGV[2] == 'session:' and redis.call('HGET', P('session_uses'), ARGV[3])
return {found, owner, use}
`;

const GET = `return redis.call('GET', P(ARGV[2]))`;

const MEMBERS = `return redis.call('SMEMBERS', P(ARGV[2]))`;

const GET_ALL = `
local found = {}
for i = 2, #ARGV do found[#found + 1] = redis.call('GET', P(ARGV[i])) end
return found
`;

const ADD_REVOKED = `
for i = 2, #ARGV do redis.call('SADD', P('revoked'), ARGV[i]) end
return 0
`;

const COUNT_WRITE = `
local key = P('writes:' .. ARGV[2])
if redis.call('HGET', key, 'hour') ~= ARGV[3] then redis.call('HSET', key, 'hour', ARGV[3], 'count', 0) end
return redis.call('HINCRBY', key, 'count', 1)
`;

const READ_FAILURE = `return redis.call('HMGET', P('failure:' .. ARGV[2]), 'count', 'lastAt', 'forgetAt')`;

const CREATE_TOKEN = `
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
const READ_TOKENS = `
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

const REVOKE = `
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

const FILTER_NEW = `
local fresh = {}
for i = 2, #ARGV do if isNew(ARGV[i]) then fresh[#fresh + 1] = ARGV[i] end end
return fresh
`;

/** Imports tokens as a directory does: those that are known or were revoked are left alone. Returns the ids added. */
const IMPORT_TOKENS = `
local added = {}
for i = 2, #ARGV do
  local token = cjson.decode(ARGV[i])
  if isNew(token.digest) then addToken(token, ARGV[i]) added[#added + 1] = token.id end
end
return added
`;

/** Takes tokens away without remembering them as revoked. */
const REMOVE_TOKENS = `
for i = 2, #ARGV do
  local token = tokenById(ARGV[i])
  if token then removeToken(token) end
end
return 0
`;

const CREATE_SESSION = `
local session = cjson.decode(ARGV[2])
redis.call('SET', P('session:' .. session.digest), ARGV[2])
redis.call('SADD', P('sessions:' .. session.userId), session.digest)
redis.call('ZADD', P('expiry:others'), session.endsAt, 'session:' .. session.digest)
return 1
`;

const END_SESSION = `return removeSession(ARGV[2])`;

const END_SESSIONS = `return endSessions(ARGV[2], ARGV[3])`;

/** Last uses: kind (`token` or `session`), key and record, in turn. An older one never replaces a newer one. */
const RECORD_USES = `
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

const TAKE_OTP_STEP = `
local key, step = P('otp:' .. ARGV[2]), tonumber(ARGV[3])
if tonumber(redis.call('GET', key) or '-1') >= step then return 0 end
redis.call('SET', key, ARGV[3])
return 1
`;

const ADD_FAILURE = `
local key, now, forgetAt = P('failure:' .. ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local known = redis.call('HMGET', key, 'count', 'forgetAt')
local count = 1
if known[1] and tonumber(known[2]) > now then count = tonumber(known[1]) + 1 end
redis.call('HSET', key, 'count', count, 'lastAt', ARGV[3], 'forgetAt', ARGV[4])
redis.call('ZADD', P('expiry:others'), forgetAt, 'failure:' .. ARGV[2])
return count
`;

const CLEAR_FAILURES = `
redis.call('DEL', P('failure:' .. ARGV[2]))
redis.call('ZREM', P('expiry:others'), 'failure:' .. ARGV[2])
return 0
`;

/** Fields by credential. Those that are over go with the next one, and all of them with the last. */
const GRANT_SUDO = `
local key, now, lasts = P('sudo:' .. ARGV[2]), tonumber(ARGV[5]), cjson.decode(ARGV[4])['until']
local known = redis.call('HGETALL', key)
local last = lasts
for i = 1, #known, 2 do
  local other = cjson.decode(known[i + 1])['until']
  if other <= now then redis.call('HDEL', key, known[i]) elseif other > last then last = other end
end
redis.call('HSET', key, ARGV[3], ARGV[4])
redis.call('PEXPIRE', key, math.max(1, last - now))
return 1
`;

const READ_SUDO = `return redis.call('HGET', P('sudo:' .. ARGV[2]), ARGV[3])`;

/** Writes the signing keys over those of the revision before. */
const REPLACE_SIGNING_KEYS = `
local known = read(P('signing_keys'))
if (known and known.revision or 0) ~= cjson.decode(ARGV[2]).revision - 1 then return 0 end
redis.call('SET', P('signing_keys'), ARGV[2])
return 1
`;

const REMOVE_SIGNING_KEYS = `return redis.call('DEL', P('signing_keys'))`;

/** All tokens less the expired ones. */
const COUNT_ACTIVE = `
local all = tonumber(redis.call('GET', P('count:tokens')) or '0')
return all - redis.call('ZCOUNT', P('expiry:tokens'), '-inf', ARGV[2])
`;

const REMOVE_EXPIRED = `
local now, tokensBefore, limit = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local removed = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P('expiry:tokens'), '-inf', '(' .. tokensBefore, 'LIMIT', 0, limit)) do
  local token = tokenById(id)
  if token then removeToken(token) else redis.call('ZREM', P('expiry:tokens'), id) end
  removed = removed + 1
end
if removed < limit then
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', P('expiry:others'), '-inf', now, 'LIMIT', 0, limit - removed)) do
    if string.sub(member, 1, 8) == 'session:' then removeSession(string.sub(member, 9))
    else redis.call('DEL', P(member)) end
    redis.call('ZREM', P('expiry:others'), member)
    removed = removed + 1
  end
end
return removed
`;

/** Every script by the name that it is called by. */
export const SCRIPTS = {
  find: FIND,
  get: GET,
  members: MEMBERS,
  getAll: GET_ALL,
  readFailure: READ_FAILURE,
  addRevoked: ADD_REVOKED,
  countWrite: COUNT_WRITE,
  createToken: CREATE_TOKEN,
  readTokens: READ_TOKENS,
  revoke: REVOKE,
  filterNew: FILTER_NEW,
  importTokens: IMPORT_TOKENS,
  removeTokens: REMOVE_TOKENS,
  createSession: CREATE_SESSION,
  endSession: END_SESSION,
  endSessions: END_SESSIONS,
  recordUses: RECORD_USES,
  takeOtpStep: TAKE_OTP_STEP,
  addFailure: ADD_FAILURE,
  clearFailures: CLEAR_FAILURES,
  grantSudo: GRANT_SUDO,
  readSudo: READ_SUDO,
  replaceSigningKeys: REPLACE_SIGNING_KEYS,
  removeSigningKeys: REMOVE_SIGNING_KEYS,
  countActive: COUNT_ACTIVE,
  removeExpired: REMOVE_EXPIRED,
  change: CHANGE,
} as const;

/** Name of a script. */
export type ScriptName = keyof typeof SCRIPTS;

/**
 * Begins a store in an empty Redis. Every other script refuses to run without this mark, so that a Redis that was
 * emptied is not taken for one that knows no token. One from before tokens were counted gets its count.
 */
export const BEGIN = `
local function P(name) return ARGV[1] .. name end
redis.call('SET', P('meta'), ARGV[2], 'NX')
if redis.call('EXISTS', P('count:tokens')) == 0 then
  local count = 0
  for _, customer in ipairs(redis.call('SMEMBERS', P('customers'))) do
    for _, user in ipairs(redis.call('SMEMBERS', P('users:' .. customer))) do
      count = count + redis.call('SCARD', P('tokens:' .. user))
    end
  end
  redis.call('SET', P('count:tokens'), count)
end
return redis.call('GET', ARGV[1] .. 'meta')
`;

/** A script with the functions that it uses. */
export function scriptText(name: ScriptName): string {
  return PRELUDE + SCRIPTS[name];
}
