import { FIRST } from './webhook-scripts.js';

export const removalScripts = {
  /**
   * Removes a damaged record with what is known of it. Arguments: its kind and id, and of a token or
   * a session its owner; of a webhook the endpoint and the subject, of a dead letter the endpoint and
   * the text. The caller has found it damaged.
   */
  removeDamaged: `
${FIRST}
useReserve()
local kind, id, owner = ARGV[2], ARGV[3], ARGV[4]
local function removeFromSets(parents, index)
  for _, parent in ipairs(redis.call('SMEMBERS', P(parents))) do redis.call('SREM', P(index .. parent), id) end
end
local function endSession(digest, userId)
  redis.call('DEL', P('session:' .. digest))
  redis.call('HDEL', P('session_uses'), digest)
  redis.call('SREM', P('sessions:' .. userId), digest)
  redis.call('ZREM', P('expiry:others'), 'session:' .. digest)
  noteEnd('session:' .. digest)
end
local removals = {
  customer = function()
    redis.call('SREM', P('customers'), id)
    redis.call('DEL', P('customer:' .. id))
  end,
  service = function()
    removeFromSets('customers', 'services:')
    redis.call('DEL', P('service:' .. id))
  end,
  -- Tokens stay, and are unknown until the user exists again.
  user = function()
    for _, digest in ipairs(redis.call('SMEMBERS', P('sessions:' .. id))) do endSession(digest, id) end
    removeFromSets('customers', 'users:')
    redis.call('SREM', P('pending_deletions'), id)
    redis.call('DEL', P('sudo:' .. id), P('user:' .. id))
  end,
  -- Deletes an unreadable token and blocks its id and digest.
  token = function()
    local digest = redis.call('GET', P('id:' .. id))
    redis.call('DEL', P('id:' .. id))
    redis.call('DECR', P('count:tokens'))
    redis.call('SREM', P('tokens:' .. owner), id)
    for _, index in ipairs({'expiry:tokens', 'overlaps', 'successors'}) do redis.call('ZREM', P(index), id) end
    redis.call('HDEL', P('uses'), id)
    redis.call('SREM', P('declared'), id)
    noteEnd('token:' .. id)
    forbid('id:' .. id)
    if digest then
      redis.call('DEL', P('token:' .. digest))
      forbid(digest)
    end
  end,
  session = function() endSession(id, owner) end,
  webhook = function()
    local base = 'webhooks:' .. id
    removeFirst(base, owner)
    -- The id of the event is unknown.
    if redis.call('ZCARD', P(base .. ':due')) == 0 then redis.call('DEL', P(base .. ':order'), P(base .. ':held')) end
  end,
  dead_letter = function() redis.call('LREM', P('webhooks:' .. id .. ':dead'), 1, owner) end,
}
removals[kind]()
return 1
`,
  /** Returns the first event of an endpoint's subject; it is empty if only its due time is there. */
  readFirstWebhook: `
${FIRST}
local base = 'webhooks:' .. ARGV[2]
return redis.call('ZSCORE', P(base .. ':due'), ARGV[3]) and firstAt(base, ARGV[3])
`,
};
