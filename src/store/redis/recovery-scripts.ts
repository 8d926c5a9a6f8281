/** What a failover lost is made again during this time, in milliseconds; those who made it learn of the failover within it. */
const RECOVERY_MS = 2_000;

/** What a script answers instead of "it is not there", as long as that may not be the last word. */
export const REFUSE_IF_RECOVERING = `
if redis.call('EXISTS', P('recovering')) == 1 then
  return redis.error_reply('LATCHKEY what a failover may have lost is being made again')
end
`;

export const recoveryScripts = {
  /**
   * Begins, once for each history, the time in which no answer says that a token or session is unknown: whoever knows
   * better may not be here yet. A store that names no history is used for the first time.
   */
  beginRecovery: `
local before = redis.call('GET', P('history'))
if before == ARGV[2] then return 0 end
redis.call('SET', P('history'), ARGV[2])
if before then redis.call('SET', P('recovering'), '', 'PX', ${RECOVERY_MS}) end
return 1
`,
  /**
   * Makes tokens and sessions again that were acknowledged and are not there. What ended meanwhile stays ended, and so does
   * what is not made again in time: an answer may have said that it is unknown.
   *
   * Each argument is the JSON of a kind, a record's text and its verified owner. Returns how many were made, and the
   * digests of those that are lost.
   */
  recover: `
local recovering = redis.call('EXISTS', P('recovering')) == 1
local made, lost = 0, {}
local function isOfOwner(owner)
  local user = read(P('user:' .. owner.id))
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
    if not recovering or not isAsVerified(owner) then return false end
    addSession(session, text)
    return true
  end,
}
for i = 2, #ARGV do
  local item = cjson.decode(ARGV[i])
  local record = cjson.decode(item.text)
  local name = item.kind .. ':' .. (item.kind == 'token' and record.id or record.digest)
  local isThere = redis.call('EXISTS', P(item.kind .. ':' .. record.digest)) == 1
  if not isThere and not redis.call('ZSCORE', P('revocations'), name) then
    if again[item.kind](record, item.text, item.owner) then made = made + 1 else lost[#lost + 1] = record.digest end
  end
end
return {made, lost}
`,
};
