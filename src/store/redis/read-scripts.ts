import { BATCH } from './batches.js';
import { REFUSE_IF_RECOVERING } from './recovery-scripts.js';

/** Maximum size of one answer in bytes; the last record may exceed it. */
const MAX_ANSWER = 256 * 1024;

/**
 * Returns a script that reads for each of its arguments and stops when its answer is
 * large. So no answer takes longer than a command may. The script returns how many
 * arguments it handled, and what was added.
 *
 * @param each Lua that reads for `ARGV[i]` and calls `add` with strings
 */
export function readingMany(each: string): string {
  return `
local found, size, done = {}, 0, 0
local function add(text) found[#found + 1] = text size = size + #text end
for i = 2, #ARGV do
  if size > ${MAX_ANSWER} then break end
  ${each}
  done = done + 1
end
return {done, found}
`;
}

export const readScripts = {
  /** Returns a record and its owner's; empty ones cannot be read. Arguments: `token:` or `session:`, and the digest. */
  find: `
local found = redis.call('GET', P(ARGV[2] .. ARGV[3]))
local record = found and decoded(found)
local isWhole = record and type(record.userId) == 'string'
-- A token without its id could not be revoked.
if isWhole and ARGV[2] == 'token:' then isWhole = type(record.id) == 'string' and redis.call('GET', P('id:' .. record.id)) == ARGV[3] end
if found and not isWhole then return {'', ''} end
local owner = found and redis.call('GET', P('user:' .. record.userId))
if not owner then
  ${REFUSE_IF_RECOVERING}
  return false
end
local use = ARGV[2] == 'session:' and redis.call('HGET', P('session_uses'), ARGV[3])
return {found, owner, use}
`,
  get: `return redis.call('GET', P(ARGV[2]))`,
  /** Returns the id and the record of the user with a login; an unknown login takes the same commands. */
  userByLogin: `
local id = redis.call('GET', P('login:' .. ARGV[2]))
local user = redis.call('GET', P('user:' .. (id or '')))
return id and user and {id, user}
`,
  /** Like `get`; the name of a script decides how long it may take. */
  probe: `return redis.call('GET', P(ARGV[2]))`,
  /**
   * Returns a page of a set, from a cursor on. The answer has three parts:
   *
   * - the next cursor, `0` at the end
   * - the server of the cursor and page, empty if one page is all
   * - members, some of which may appear in two pages
   */
  members: `
local page = redis.call('SSCAN', P(ARGV[2]), ARGV[3], 'COUNT', ${BATCH})
local isAll = ARGV[3] == '0' and page[1] == '0'
return {page[1], isAll and '' or string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), page[2]}
`,
  /** Returns names of keys, each with the record; missing ones are left out. */
  getAll: readingMany(`
  local text = redis.call('GET', P(ARGV[i]))
  if text then add(ARGV[i]) add(text) end
`),
  /** Returns digests of sessions, each with the record and the last use; missing ones are left out. */
  readSessions: readingMany(`
  local text = redis.call('GET', P('session:' .. ARGV[i]))
  if text then add(ARGV[i]) add(text) add(redis.call('HGET', P('session_uses'), ARGV[i]) or '') end
`),
};
