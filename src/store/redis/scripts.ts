/**
 * The Lua scripts. KEYS[1] is any key of the store, which routes to the slot that all keys share;
 * ARGV[1] is their prefix. None of them knows what is in a record.
 */
import { createHash } from 'node:crypto';
import { MAX_REFS } from '../core/kv.js';

/** How long a mark is kept, in milliseconds; far longer than anyone asks for it. */
export const MARK_MS = 120_000;

/** The mark of a change that was given up before it was made: it cannot be made any more. */
export const GIVEN_UP = 'given up';

/**
 * Leaves a script's answer in KEYS[2], atomically with its effect: it answers twice but changes once,
 * and not at all if it was given up. A Redis out of memory accepts the mark after a change.
 */
function marked(script: string): string {
  return `
local known = redis.call('GET', KEYS[2])
if known == '${GIVEN_UP}' then return redis.error_reply('LATCHKEY the change was given up') end
if known then return cjson.decode(known)[1] end
local function make()
${script}
end
local result = make()
if type(result) == 'table' and result.err then return result end
redis.pcall('SET', KEYS[2], cjson.encode({result}), 'PX', ${MARK_MS})
return result
`;
}

/** What the report of a failed script begins with: the key was damaged, or a part was made. */
export const DAMAGED = 'DAMAGED ';
export const PARTLY = 'PARTLY ';

/**
 * Tells the failure of a script apart: a part was made, a key holds what it cannot use, or Redis
 * refused it before the first write. A digest in the name of a key is cut.
 */
function reported(script: string): string {
  return `
local function run()
${script}
end
local isDone, result = pcall(run)
if isDone then return result end
local reason = type(result) == 'table' and result.err or result
local at = string.gsub(latestKey, '([%w_-][%w_-][%w_-][%w_-][%w_-][%w_-][%w_-][%w_-])' .. string.rep('[%w_-]', 35) .. '$', '%1...')
if hasWritten then return redis.error_reply('${PARTLY}' .. at .. ' ' .. reason) end
local isDamaged = string.find(reason, '^user_script:') or string.find(reason, 'WRONGTYPE', 1, true)
if not isDamaged and string.find(reason, '^%u+ ') then return redis.error_reply(reason) end
if not isDamaged then error(result, 0) end
return redis.error_reply('${DAMAGED}' .. at .. ' ' .. reason)
`;
}

export const CONFIRM = `
local known = redis.call('GET', KEYS[1])
if known then return known end
redis.call('SET', KEYS[1], '${GIVEN_UP}', 'PX', ${MARK_MS})
return '${GIVEN_UP}'
`;

export function answerIn(mark: string): unknown {
  const [answer] = JSON.parse(mark) as [unknown];
  return answer;
}

/** How long the store and the processes remember what ended, in seconds. */
const REMEMBERED_SECONDS = 3_600;
/** How much earlier it is read again, in seconds: longer than most losses of a link. */
const OVERLAP_SECONDS = 300;
/** How long lost creations are restored: their creators learn of the failover within that time. */
const RECOVERY_MS = 2_000;
/** What is read at once when nothing limits it, and the size of an answer in bytes. */
export const BATCH = 500;
const MAX_ANSWER = 256 * 1024;

/** The index of what ended, by the time in seconds. */
export const REVOCATIONS = 'revocations';

/** Contains the number of the database: Redis announces changed keys to clients of all databases. */
export function announcementPrefix(database: number): string {
  return database === 0 ? 'revocation:' : `revocation@${database}:`;
}

const PRELUDE = `
-- Notes the latest key, and whether a part of a change was made, for the report of a failure.
local server, latestKey, hasWritten = redis, '', false
local redis = {pcall = server.pcall, error_reply = server.error_reply}
function redis.call(name, ...)
  latestKey = ... or latestKey
  return server.call(name, ...)
end
local function write(...)
  redis.call(...)
  hasWritten = true
end
local prefix = ARGV[1]
local function P(name) return prefix .. name end
local function indexOf(name) return prefix .. 'index:' .. name end
if redis.call('EXISTS', P('meta')) == 0 then
  return redis.error_reply('LATCHKEY the store is empty: start a server or run "latchkey apply" to begin one, or restore it')
end
-- When its memory is full, Redis refuses what takes more only until a script has written: a removal opens what is kept for it.
local function useReserve() server.call('DEL', P('reserve')) end
-- Seconds and milliseconds.
local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]), tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local function refuseIfRecovering()
  if redis.call('EXISTS', P('recovering')) == 1 then
    error({err = 'LATCHKEY what a failover may have lost is being made again'})
  end
end
local function whole(number) return string.format('%.0f', number) end
`;

const SCRIPTS = {
  /** Returns the first of some records: it stops when the answer is large. */
  read: `
local found, size = {}, 0
for i = 2, #ARGV do
  if size > ${MAX_ANSWER} then break end
  local text = redis.call('GET', P(ARGV[i]))
  found[#found + 1] = text
  size = size + #(text or '')
end
return found
`,
  count: `return redis.call('ZCOUNT', indexOf(ARGV[2]), ARGV[3], '+inf')`,
  /** Returns a record that stands beside, then one, the one that it refers to, and so on. */
  follow: `
local found, name = {ARGV[2] ~= '' and redis.call('GET', P(ARGV[2]))}, ARGV[3]
while name and name ~= '' and #found <= ${MAX_REFS} do
  local text = redis.call('GET', P(name))
  if not text then
    refuseIfRecovering()
    break
  end
  found[#found + 1] = text
  name = string.match(text, '^[^|]*|([^|]*)|')
end
return found
`,
  /** Members of an index with their scores. Arguments: from, to, how many. */
  range: `return redis.call('ZRANGEBYSCORE', indexOf(ARGV[2]), ARGV[3], ARGV[4], 'WITHSCORES', 'LIMIT', 0, ARGV[5])`,
  /** Members after one, in an index of whole-numbered scores: the rest of its score, then higher ones. */
  rangeAfter: `
local index, score, name, to, limit = indexOf(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
-- By bytes, as Redis orders members; Lua may compare texts by language.
local function isBehind(other)
  for i = 1, math.min(#other, #name) do
    local a, b = string.byte(other, i), string.byte(name, i)
    if a ~= b then return a > b end
  end
  return #other > #name
end
local rank = redis.call('ZCOUNT', index, '-inf', '(' .. score)
local last = redis.call('ZCOUNT', index, '-inf', score) - 1
-- The place of the first member of that score behind the name.
while rank <= last do
  local middle = math.floor((rank + last) / 2)
  if isBehind(redis.call('ZRANGE', index, middle, middle)[1]) then last = middle - 1 else rank = middle + 1 end
end
local found = redis.call('ZRANGE', index, rank, rank + limit - 1, 'WITHSCORES')
for i = 2, #found, 2 do
  if tonumber(found[i]) > tonumber(to) then
    for j = #found, i - 1, -1 do found[j] = nil end
    break
  end
end
return found
`,
  /** Members between two names, in an index whose scores are all 0. */
  rangeBetween: `return redis.call('ZRANGEBYLEX', indexOf(ARGV[2]), '(' .. ARGV[3], '(' .. ARGV[4], 'LIMIT', 0, ARGV[5])`,
  scores: `
local found = {}
for i = 3, #ARGV do found[#found + 1] = redis.call('ZSCORE', indexOf(ARGV[2]), ARGV[i]) end
return found
`,
  /** Makes a change (`Commit`), or returns '' if a record has another revision than expected. */
  commit: `
local expect, put, link, tell = cjson.decode(ARGV[3]), cjson.decode(ARGV[4]), cjson.decode(ARGV[5]), cjson.decode(ARGV[6])
for i = 7, #ARGV, 3 do
  if #redis.call('ZRANGEBYLEX', indexOf(ARGV[i]), '(' .. ARGV[i + 1], '(' .. ARGV[i + 2], 'LIMIT', 0, 1) > 0 then return '' end
end
for i = 1, #expect, 2 do
  local text = redis.call('GET', P(expect[i]))
  if (text and string.match(text, '^[^|]*') or '') ~= expect[i + 1] then return '' end
end
if ARGV[2] == '1' then useReserve() end
-- Not a part of the change: a number may be left out.
local revision, seconds = whole(server.call('INCR', P('revision'))), clock()
for i = 1, #put, 3 do
  if put[i + 2] == '' then write('DEL', P(put[i]))
  else write('SET', P(put[i]), revision .. '|' .. put[i + 1] .. '|' .. put[i + 2]) end
end
for i = 1, #link, 3 do
  local score = link[i + 2]
  if score == '' then write('ZREM', indexOf(link[i]), link[i + 1])
  else write('ZADD', indexOf(link[i]), score == 'revision' and revision or score, link[i + 1]) end
end
for _, name in ipairs(tell) do
  write('ZADD', indexOf('${REVOCATIONS}'), seconds, name)
  write('SET', P(announcement .. name), '')
  write('DEL', P(announcement .. name))
end
if #tell > 0 then write('ZREMRANGEBYSCORE', indexOf('${REVOCATIONS}'), '-inf', seconds - ${REMEMBERED_SECONDS}) end
return revision
`,
  /** Writes uses. Arguments, of each: the name, the time, the value, and what it is a use of. */
  touch: `
for i = 2, #ARGV, 4 do
  local known = redis.call('GET', P(ARGV[i]))
  local at = known and tonumber(string.match(known, '^[^|]*')) or -math.huge
  if at < tonumber(ARGV[i + 1]) and redis.call('EXISTS', P(ARGV[i + 3])) == 1 then
    redis.call('SET', P(ARGV[i]), ARGV[i + 1] .. '||' .. ARGV[i + 2])
  end
end
return 0
`,
  clock: `
local _, now = clock()
return whole(now)
`,
  probeWrite: `return redis.call('SET', P('probe'), ARGV[2])`,
  probeLink: `
useReserve()
redis.call('SET', P(ARGV[2]), ARGV[3], 'PX', 10000)
return redis.call('TIME')
`,
  /** Begins a recovery, once for each history; a store without a history is used for the first time. */
  beginRecovery: `
local before = redis.call('GET', P('history'))
if before == ARGV[2] then return 0 end
useReserve()
redis.call('SET', P('history'), ARGV[2])
if before then redis.call('SET', P('recovering'), '', 'PX', ${RECOVERY_MS}) end
return 1
`,
  confirmMissing: `refuseIfRecovering()`,
  isRecovering: `return redis.call('EXISTS', P('recovering'))`,
  /** What ended since a time in seconds, and a little earlier: that may be another master's time. */
  readRevocations: `
local since, now = tonumber(ARGV[2]) - ${OVERLAP_SECONDS}, clock()
if since > now then since = 0 end
return redis.call('ZRANGEBYSCORE', indexOf('${REVOCATIONS}'), since, '+inf', 'WITHSCORES', 'LIMIT', ARGV[3], ${BATCH})
`,
};

export type ScriptName = keyof typeof SCRIPTS;

/** Whether it leaves a mark with its answer, atomically with its effect. */
export function isChange(name: ScriptName): boolean {
  return name === 'commit';
}

export type Scripts = Readonly<Record<ScriptName, { readonly text: string; readonly sha: string }>>;

export function scriptsFor(database: number): Scripts {
  const announcement = `local announcement = '${announcementPrefix(database)}'\n`;
  const entries = Object.entries(SCRIPTS).map(([name, script]) => {
    const text = PRELUDE + announcement + reported(isChange(name as ScriptName) ? marked(script) : script);
    return [name, { text, sha: createHash('sha1').update(text).digest('hex') }] as const;
  });
  return Object.fromEntries(entries) as Scripts;
}
