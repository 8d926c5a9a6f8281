import { CHANGE } from './change-script.js';
import {
  ADD_FAILURE,
  CLEAR_FAILURES,
  COUNT_WRITE,
  CREATE_SESSION,
  END_SESSION,
  END_SESSIONS,
  GRANT_SUDO,
  READ_FAILURE,
  READ_SUDO,
  TAKE_OTP_STEP,
} from './login-scripts.js';
import {
  ADD_REVOKED,
  COUNT_ACTIVE,
  CREATE_TOKEN,
  FILTER_NEW,
  IMPORT_TOKENS,
  READ_TOKENS,
  RECORD_USES,
  REMOVE_TOKENS,
  REVOKE,
} from './token-scripts.js';

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

/** Writes the signing keys over those of the revision before. */
const REPLACE_SIGNING_KEYS = `
local known = read(P('signing_keys'))
if (known and known.revision or 0) ~= cjson.decode(ARGV[2]).revision - 1 then return 0 end
redis.call('SET', P('signing_keys'), ARGV[2])
return 1
`;

const REMOVE_SIGNING_KEYS = `return redis.call('DEL', P('signing_keys'))`;

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
