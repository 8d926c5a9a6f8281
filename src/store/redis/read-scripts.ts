import { BATCH } from './batches.js';
import { readingMany } from './reading-many.js';
import { REFUSE_IF_RECOVERING } from './recovery-scripts.js';

/** A record and the record of its owner: `token:` or `session:`, and the digest. */
export const FIND = `
local found = redis.call('GET', P(ARGV[2] .. ARGV[3]))
local owner = found and redis.call('GET', P('user:' .. cjson.decode(found).userId))
if not owner then
  ${REFUSE_IF_RECOVERING}
  return false
end
local use = ARGV[2] == 'session:' and redis.call('HGET', P('session_uses'), ARGV[3])
return {found, owner, use}
`;

export const GET = `return redis.call('GET', P(ARGV[2]))`;

/**
 * A page of a set from a cursor on: the next cursor, \`0\` at the end; the server that both are of, empty where one page is all;
 * and members, some of which may come in two pages.
 */
export const MEMBERS = `
local page = redis.call('SSCAN', P(ARGV[2]), ARGV[3], 'COUNT', ${BATCH})
local isAll = ARGV[3] == '0' and page[1] == '0'
return {page[1], isAll and '' or string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), page[2]}
`;

export const GET_ALL = readingMany(`
  local text = redis.call('GET', P(ARGV[i]))
  if text then add(text) end
`);

/** Sessions by digest with their last uses; those that are gone are left out. */
export const READ_SESSIONS = readingMany(`
  local text = redis.call('GET', P('session:' .. ARGV[i]))
  if text then add(text) add(redis.call('HGET', P('session_uses'), ARGV[i]) or '') end
`);
