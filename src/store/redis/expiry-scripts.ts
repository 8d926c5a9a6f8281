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

/** Which of some tokens nobody claimed before. A claim goes a day after its token expired. */
export const CLAIM_WARNINGS = `
local claimed = {}
for i = 3, #ARGV do
  local left = expiryOf(ARGV[i]) - tonumber(ARGV[2])
  if left ~= math.huge and redis.call('SET', P('warned:' .. ARGV[i]), '', 'NX', 'PX', string.format('%.0f', math.max(0, left) + 86400000)) then
    tellExpiring(ARGV[i])
    claimed[#claimed + 1] = ARGV[i]
  end
end
return claimed
`;
