/** How long a mark is kept, in milliseconds; far longer than anyone asks for it. */
export const MARK_MS = 120_000;

/** The mark of a change that was given up before it was made: it cannot be made any more. */
export const GIVEN_UP = 'given up';

/**
 * Leaves a script's answer in KEYS[2], atomically with its effect: it answers twice but changes once,
 * and not at all if it was given up. A Redis out of memory accepts the mark after a change.
 */
export function marked(script: string): string {
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
export function reported(script: string, mayBePartly: boolean): string {
  return `
local function run()
${script}
end
local isDone, result = pcall(run)
if isDone then return result end
local reason = type(result) == 'table' and result.err or result
local at = string.gsub(latestKey, '([%w_-][%w_-][%w_-][%w_-][%w_-][%w_-][%w_-][%w_-])' .. string.rep('[%w_-]', 35) .. '$', '%1...')
if ${mayBePartly} and hasWritten() then return redis.error_reply('${PARTLY}' .. at .. ' ' .. reason) end
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
