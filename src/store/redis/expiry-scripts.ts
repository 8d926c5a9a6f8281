import { BATCH } from './batches.js';

/** Ids of tokens that expire behind one time, up to another one, with their times: a batch of them from a position on. */
export const LIST_EXPIRING = `
return redis.call('ZRANGEBYSCORE', P('expiry:tokens'), '(' .. ARGV[2], ARGV[3], 'WITHSCORES', 'LIMIT', ARGV[4], ${BATCH})
`;

/** Which of some tokens nobody claimed before. A claim goes a day after its token expired. */
export const CLAIM_WARNINGS = `
local claimed = {}
for i = 3, #ARGV do
  local left = expiryOf(ARGV[i]) - tonumber(ARGV[2])
  if left ~= math.huge and redis.call('SET', P('warned:' .. ARGV[i]), '', 'NX', 'PX', string.format('%.0f', math.max(0, left) + 86400000)) then
    claimed[#claimed + 1] = ARGV[i]
  end
end
return claimed
`;
