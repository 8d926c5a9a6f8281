import { BATCH } from './batches.js';

/**
 * Ids of tokens that expire behind one time, up to another one, with their times, less those that were rotated: of a batch from a
 * position on, and how many that had.
 */
export const LIST_EXPIRING = `
local rows = redis.call('ZRANGEBYSCORE', P('expiry:tokens'), '(' .. ARGV[2], ARGV[3], 'WITHSCORES', 'LIMIT', ARGV[4], ${BATCH})
local found = {}
for i = 1, #rows, 2 do
  if not redis.call('ZSCORE', P('overlaps'), rows[i]) then
    found[#found + 1] = rows[i]
    found[#found + 1] = rows[i + 1]
  end
end
return {#rows / 2, found}
`;

/** Which of some tokens nobody claimed for the expiry that they have. A claim goes a day after that. */
export const CLAIM_WARNINGS = `
local claimed = {}
for i = 3, #ARGV do
  local at, key = expiryOf(ARGV[i]), P('warned:' .. ARGV[i])
  local expiry = string.format('%.0f', at)
  if at ~= math.huge and redis.call('GET', key) ~= expiry then
    local left = math.max(0, at - tonumber(ARGV[2]))
    redis.call('SET', key, expiry, 'PX', string.format('%.0f', left + 86400000))
    tellExpiring(ARGV[i])
    claimed[#claimed + 1] = ARGV[i]
  end
end
return claimed
`;
