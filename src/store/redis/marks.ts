/** A mark is kept for so long, which is far longer than anybody asks for it. */
export const MARK_MS = 120_000;

/** What stands in the mark of a change that was given up before it was made: it can't be made any more. */
export const GIVEN_UP = 'given up';

/**
 * A script that leaves its answer in KEYS[2], in the same step as its effect. One that comes twice answers twice and
 * changes once, and one that was given up changes nothing, however late it comes.
 *
 * A Redis without memory takes the mark behind a change that it took; without a change there is nothing to confirm.
 */
export function marked(script: string, ends: boolean): string {
  return `
local known = redis.call('GET', KEYS[2])
if known == '${GIVEN_UP}' then return redis.error_reply('LATCHKEY the change was given up') end
if known then return cjson.decode(known)[1] end
local function run()
${script}
end
local result = run()
if type(result) == 'table' and result.err then return result end
local answer = ${ends ? '{result, ended}' : 'result'}
redis.pcall('SET', KEYS[2], cjson.encode({answer}), 'PX', ${MARK_MS})
return answer
`;
}

/** Reads the mark KEYS[1] of a change, or gives the change up. */
export const CONFIRM = `
local known = redis.call('GET', KEYS[1])
if known then return known end
redis.call('SET', KEYS[1], '${GIVEN_UP}', 'PX', ${MARK_MS})
return '${GIVEN_UP}'
`;

/** The answer of a change, as its script would have given it. JSON of Redis has one form for an empty list and object. */
export function answerIn(mark: string): unknown {
  const [answer] = JSON.parse(mark) as [unknown];
  return listsOf(answer);
}

function listsOf(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(listsOf);
  return typeof answer === 'object' && answer !== null ? [] : answer;
}
