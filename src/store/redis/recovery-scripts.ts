/**
 * How long lost creations are restored after a failover, in milliseconds. Their creators learn of
 * the failover within that time.
 */
const RECOVERY_MS = 2_000;

/** Refuses to report a record as missing while it may still be restored. */
export const REFUSE_IF_RECOVERING = `
if redis.call('EXISTS', P('recovering')) == 1 then
  return redis.error_reply('LATCHKEY what a failover may have lost is being made again')
end
`;

export const recoveryScripts = {
  /**
   * Begins the recovery, once for each history. During it, no script reports a token or session as
   * missing: a process that can restore it may not be connected yet. A store without a history is
   * in use for the first time.
   */
  beginRecovery: `
local before = redis.call('GET', P('history'))
if before == ARGV[2] then return 0 end
useReserve()
redis.call('SET', P('history'), ARGV[2])
if before then redis.call('SET', P('recovering'), '', 'PX', ${RECOVERY_MS}) end
return 1
`,
  /**
   * Restores tokens and sessions that were acknowledged and do not exist. What ended meanwhile
   * stays ended. So does what is not restored in time: it may have been reported as missing.
   *
   * Each argument is JSON of a kind, a record's text and its verified owner. Returns how many were
   * restored, and the digests of those that are lost.
   */
  recover: `
useReserve()
local recovering = redis.call('EXISTS', P('recovering')) == 1
local made, lost = 0, {}
local function isOfOwner(owner)
  local user = unlessUnreadable(userById, owner.id)
  return user and user.createdAt == owner.createdAt
end
local again = {
  token = function(token, text, owner)
    if not recovering or not isNew(token.digest) or not isOfOwner(owner) then return false end
    addToken(token, text)
    tellCreated(token, text)
    return true
  end,
  session = function(session, text, owner)
    if not recovering or not isOfOwner(owner) or not isAsVerified(owner) then return false end
    addSession(session, text)
    return true
  end,
}
for i = 2, #ARGV do
  local item = cjson.decode(ARGV[i])
  local record = cjson.decode(item.text)
  local name = item.kind .. ':' .. (item.kind == 'token' and record.id or record.digest)
  local isThere = redis.call('EXISTS', P(item.kind .. ':' .. record.digest)) == 1
  local hasEnded = redis.call('ZSCORE', P('revocations'), name)
    or record.predecessorId and redis.call('ZSCORE', P('revocations'), 'token:' .. record.predecessorId)
  if not isThere and not hasEnded then
    if again[item.kind](record, item.text, item.owner) then made = made + 1 else lost[#lost + 1] = record.digest end
  end
end
return {made, lost}
`,
};
