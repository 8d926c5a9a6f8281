import { BATCH } from './batches.js';
import { readingMany } from './reading-many.js';
import { CHANGE } from './change-script.js';
import { ATTEMPT_HELD_UNTIL, KNOWN_ADDRESSES, RESERVE_ATTEMPT, SETTLE_ATTEMPT } from './attempt-scripts.js';
import {
  COUNT_WRITE,
  CREATE_SESSION,
  END_SESSION,
  END_SESSIONS,
  GRANT_SUDO,
  READ_SUDO,
  TAKE_OTP_STEP,
} from './login-scripts.js';
import { marked } from './marks.js';
import { BEGIN_RECOVERY, RECOVER, REFUSE_IF_RECOVERING } from './recovery-scripts.js';
import { MISSING_TOKENS, READ_REVOCATIONS, REAPPLY, REMEMBERED_SECONDS } from './revocation-scripts.js';
import {
  ADD_REVOKED,
  COUNT_ACTIVE,
  COUNT_TOKENS,
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
-- When its memory is full, Redis refuses what takes more only until a script has written: a removal opens what is kept for it.
local function useReserve() redis.call('DEL', P('reserve')) end
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
-- What ends for good is kept apart for an hour and told by name, so that those who know of it can end it again.
local ended = {}
local function noteEnd(name)
  local time = redis.pcall('TIME')
  local now = time.err and 0 or tonumber(time[1])
  ended[#ended + 1] = name
  redis.call('ZADD', P('revocations'), now, name)
  redis.call('ZREMRANGEBYSCORE', P('revocations'), '-inf', now - ${REMEMBERED_SECONDS})
  redis.call('SET', P('revocation:' .. name), '')
  redis.call('DEL', P('revocation:' .. name))
end
-- Of a token that is there, without reading its record.
local function expiryOf(id) return tonumber(redis.call('ZSCORE', P('expiry:tokens'), id) or 'inf') end
local function sessionOverAt(session, use)
  return type(use.idleEndsAt) == 'number' and math.min(session.endsAt, use.idleEndsAt) or session.endsAt
end
local function removeSession(digest)
  local session = read(P('session:' .. digest))
  if not session then return 0 end
  redis.call('DEL', P('session:' .. digest))
  redis.call('HDEL', P('session_uses'), digest)
  redis.call('SREM', P('sessions:' .. session.userId), digest)
  redis.call('ZREM', P('expiry:others'), 'session:' .. digest)
  return 1
end
local function addSession(session, text)
  redis.call('SET', P('session:' .. session.digest), text)
  redis.call('SADD', P('sessions:' .. session.userId), session.digest)
  redis.call('ZADD', P('expiry:others'), sessionOverAt(session, session), 'session:' .. session.digest)
end
local function endSessions(userId, except)
  local count = 0
  for _, digest in ipairs(redis.call('SMEMBERS', P('sessions:' .. userId))) do
    if digest ~= except and removeSession(digest) == 1 then
      noteEnd('session:' .. digest)
      count = count + 1
    end
  end
  return count
end
local function isAsVerified(owner)
  local user = read(P('user:' .. owner.id))
  if not user then return false end
  local samePassword = user.passwordHash == owner.passwordHash or user.rehashOf == owner.rehashOf
  return samePassword and user.customerId == owner.customerId and user.createdAt == owner.createdAt
    and user.otpSecret == owner.otpSecret and user.locked == owner.locked
end
local function isNew(digest)
  return redis.call('EXISTS', P('token:' .. digest)) == 0 and redis.call('SISMEMBER', P('revoked'), digest) == 0
end
`;

/** A record and the record of its owner: `token:` or `session:`, and the digest. */
const FIND = `
local found = redis.call('GET', P(ARGV[2] .. ARGV[3]))
local owner = found and redis.call('GET', P('user:' .. cjson.decode(found).userId))
if not owner then
  ${REFUSE_IF_RECOVERING}
  return false
end
local use = ARGV[2] == 'session:' and redis.call('HGET', P('session_uses'), ARGV[3])
return {found, owner, use}
`;

const GET = `return redis.call('GET', P(ARGV[2]))`;

/**
 * A page of a set from a cursor on: the next cursor, \`0\` at the end; the server that both are of, empty where one page is all;
 * and members, some of which may come in two pages.
 */
const MEMBERS = `
local page = redis.call('SSCAN', P(ARGV[2]), ARGV[3], 'COUNT', ${BATCH})
local isAll = ARGV[3] == '0' and page[1] == '0'
return {page[1], isAll and '' or string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), page[2]}
`;

const GET_ALL = readingMany(`
  local text = redis.call('GET', P(ARGV[i]))
  if text then add(text) end
`);

/** Sessions by digest with their last uses; those that are gone are left out. */
const READ_SESSIONS = readingMany(`
  local text = redis.call('GET', P('session:' .. ARGV[i]))
  if text then add(text) add(redis.call('HGET', P('session_uses'), ARGV[i]) or '') end
`);

/** An empty value removes the mark. */
const SET_RESTORING = `
if ARGV[3] == '' then return redis.call('DEL', P(ARGV[2])) end
return redis.call('SET', P(ARGV[2]), ARGV[3])
`;

const PROBE_WRITE = `return redis.call('SET', P('probe'), ARGV[2])`;

/** Writes a key that one invalidation link is notified of. Returns the clock of Redis: seconds and microseconds. */
const PROBE_LINK = `
redis.call('SET', P(ARGV[2]), ARGV[3], 'PX', 10000)
local time = redis.pcall('TIME')
return time.err and {} or time
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
useReserve()
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

/**
 * Scripts whose effect must be known: each leaves a mark with its answer, in the same step, which is asked for when the
 * answer got lost (`marks.ts`).
 */
const CHANGES = {
  addRevoked: ADD_REVOKED,
  change: CHANGE,
  createSession: CREATE_SESSION,
  createToken: CREATE_TOKEN,
  endSession: END_SESSION,
  endSessions: END_SESSIONS,
  grantSudo: GRANT_SUDO,
  importTokens: IMPORT_TOKENS,
  removeSigningKeys: REMOVE_SIGNING_KEYS,
  removeTokens: REMOVE_TOKENS,
  replaceSigningKeys: REPLACE_SIGNING_KEYS,
  revoke: REVOKE,
  takeOtpStep: TAKE_OTP_STEP,
} as const;

/** The others read, or write what may be written again, or count: what may have been counted stays counted. */
const SCRIPTS = {
  ...CHANGES,
  readSessions: READ_SESSIONS,
  setRestoring: SET_RESTORING,
  countTokens: COUNT_TOKENS,
  attemptHeldUntil: ATTEMPT_HELD_UNTIL,
  beginRecovery: BEGIN_RECOVERY,
  countActive: COUNT_ACTIVE,
  countWrite: COUNT_WRITE,
  filterNew: FILTER_NEW,
  find: FIND,
  get: GET,
  getAll: GET_ALL,
  knownAddresses: KNOWN_ADDRESSES,
  members: MEMBERS,
  missingTokens: MISSING_TOKENS,
  probeLink: PROBE_LINK,
  probeWrite: PROBE_WRITE,
  readRevocations: READ_REVOCATIONS,
  readSudo: READ_SUDO,
  readTokens: READ_TOKENS,
  reapply: REAPPLY,
  recordUses: RECORD_USES,
  recover: RECOVER,
  removeExpired: REMOVE_EXPIRED,
  reserveAttempt: RESERVE_ATTEMPT,
  settleAttempt: SETTLE_ATTEMPT,
} as const;

/** Name of a script. */
export type ScriptName = keyof typeof SCRIPTS;

/** What a password hash costs, as {@link costOfHash} reckons it. */
const COST_OF = `
local function costOf(hash)
  if type(hash) ~= 'string' then return 0 end
  local memory, passes = string.match(hash, '^%$argon2id%$v=19%$m=(%d+),t=(%d+),p=%d+%$')
  return memory and tonumber(memory) * tonumber(passes) or 0
end
`;

/**
 * Begins a store in an empty Redis. Every other script refuses to run without this mark, so that a Redis that was
 * emptied is not taken for one that knows no token. One from before tokens were counted gets its count, and
 * one from before the cost of passwords was kept gets that.
 */
export const BEGIN = `
local function P(name) return ARGV[1] .. name end
${COST_OF}
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
if redis.call('EXISTS', P('password_cost')) == 0 then
  local cost = 0
  for _, customer in ipairs(redis.call('SMEMBERS', P('customers'))) do
    for _, id in ipairs(redis.call('SMEMBERS', P('users:' .. customer))) do
      local user = redis.call('GET', P('user:' .. id))
      if user then cost = math.max(cost, costOf(cjson.decode(user).passwordHash)) end
    end
  end
  redis.call('SET', P('password_cost'), string.format('%.0f', cost))
end
return redis.call('GET', ARGV[1] .. 'meta')
`;

export const SCRIPT_NAMES = Object.keys(SCRIPTS) as ScriptName[];

/** Whether a script leaves a mark, whose key is its second. */
export function isChange(name: ScriptName): boolean {
  return name in CHANGES;
}

/** Changes that may end something for good. Their answer is a pair: what they answer, and names of what ended. */
const ENDING: ReadonlySet<ScriptName> = new Set([
  'change',
  'createSession',
  'endSession',
  'endSessions',
  'revoke',
]);

/** Whether the answer of a script is a pair of an answer and what ended. */
export function endsSomething(name: ScriptName): boolean {
  return ENDING.has(name);
}

/** A script with the functions that it uses. */
export function scriptText(name: ScriptName): string {
  const script = (name === 'change' ? COST_OF : '') + SCRIPTS[name];
  return PRELUDE + (isChange(name) ? marked(script, endsSomething(name)) : script);
}
