import { FORGET_ENDPOINT_MS, MAX_DEAD } from '../webhook-store.js';
import { APPEND } from './webhook-events.js';

/** Lua functions for the first event of a subject. */
export const FIRST = `
${APPEND}
-- Empty if there is none. It may also be an empty text.
local function firstAt(base, subject)
  return redis.call('LINDEX', P(base .. ':queue:' .. subject), 0) or ''
end
local function removeFirst(base, subject)
  local queue, due = P(base .. ':queue:' .. subject), P(base .. ':due')
  local event = decoded(firstAt(base, subject))
  addHeld(base, event and event.customerId, -1)
  redis.call('LPOP', queue)
  redis.call('HDEL', P(base .. ':attempts'), subject)
  if redis.call('LLEN', queue) > 0 then redis.call('ZADD', due, redis.call('INCR', P('webhooks:number')), subject)
  else redis.call('ZREM', due, subject) end
end
`;

export const webhookScripts = {
  /**
   * Acquires or renews the lease. Arguments: the holder and its ttl. The lease name begins with a
   * number that increases with each holder.
   */
  acquireWebhooks: `
useReserve()
local key = P('webhooks:lease')
local name = redis.call('GET', key)
if name and string.match(name, '^%d+:(.*)$') ~= ARGV[2] then return false end
name = name or string.format('%.0f:%s', redis.call('INCR', P('webhooks:leases')), ARGV[2])
redis.call('SET', key, name, 'PX', ARGV[3])
return name
`,
  releaseWebhooks: `
if redis.call('GET', P('webhooks:lease')) == ARGV[2] then redis.call('DEL', P('webhooks:lease')) end
return 0
`,
  /**
   * Arguments: the lease, the endpoint, the time and the limit. Returns for each event: its
   * subject, the event, and its number of failed attempts.
   */
  readDueWebhooks: `
${FIRST}
if redis.call('GET', P('webhooks:lease')) ~= ARGV[2] then return false end
local base, found = 'webhooks:' .. ARGV[3], {}
if redis.call('HGET', P(base .. ':state'), 'disabledAt') then return found end
for _, subject in ipairs(redis.call('ZRANGEBYSCORE', P(base .. ':due'), '-inf', ARGV[4], 'LIMIT', 0, ARGV[5])) do
  local text = firstAt(base, subject)
  local attempts = redis.call('HGET', P(base .. ':attempts'), subject)
  found[#found + 1] = {subject, text, attempts or '0'}
end
return found
`,
  /**
   * Arguments: the lease, the endpoint, the subject, the event id,
   * the time and the outcome as JSON.
   */
  settleWebhook: `
${FIRST}
useReserve()
if redis.call('GET', P('webhooks:lease')) ~= ARGV[2] then return 0 end
local base, subject, now, outcome = 'webhooks:' .. ARGV[3], ARGV[4], ARGV[6], cjson.decode(ARGV[7])
local state, head = P(base .. ':state'), firstAt(base, subject)
local event = decoded(head)
if not event or event.id ~= ARGV[5] then return 0 end
local attempts = (tonumber(redis.call('HGET', P(base .. ':attempts'), subject) or 0) or 0) + 1
redis.call('HSET', P(base .. ':attempts'), subject, attempts)
if outcome.kind == 'delivered' then redis.call('HSET', state, 'lastSuccessAt', now)
else redis.call('HSET', state, 'lastFailureAt', now, 'lastError', outcome.error) end
if outcome.kind == 'failed' then
  redis.call('ZADD', P(base .. ':due'), outcome.retryAt, subject)
  if outcome.disable then redis.call('HSET', state, 'disabledAt', now) end
  return 1
end
redis.call('ZREM', P(base .. ':order'), ARGV[5])
removeFirst(base, subject)
if outcome.kind == 'dead' then
  local dead = P(base .. ':dead')
  if redis.call('LLEN', dead) >= ${MAX_DEAD} then
    redis.call('LPOP', dead)
    redis.call('HINCRBY', state, 'deadDropped', 1)
  end
  redis.call('RPUSH', dead, cjson.encode({event = head, attempts = attempts, failedAt = tonumber(now), error = outcome.error}))
end
return 1
`,
  /** Arguments: the lease, the time and the known endpoints. */
  keepWebhooks: `
if redis.call('GET', P('webhooks:lease')) ~= ARGV[2] then return 0 end
local now, known = tonumber(ARGV[3]), {}
for i = 4, #ARGV do known[ARGV[i]] = true end
for _, endpoint in ipairs(redis.call('SMEMBERS', P('webhooks:endpoints'))) do
  local base = 'webhooks:' .. endpoint
  local at = tonumber(redis.call('HGET', P(base .. ':state'), 'keptAt') or now)
  if known[endpoint] or at >= now - ${FORGET_ENDPOINT_MS} then
    redis.call('HSET', P(base .. ':state'), 'keptAt', string.format('%.0f', known[endpoint] and now or at))
  else
    for _, subject in ipairs(redis.call('ZRANGE', P(base .. ':due'), 0, -1)) do redis.call('DEL', P(base .. ':queue:' .. subject)) end
    for _, kind in ipairs({':due', ':order', ':held', ':attempts', ':dead', ':state'}) do redis.call('DEL', P(base .. kind)) end
    redis.call('SREM', P('webhooks:endpoints'), endpoint)
  end
end
return 1
`,
  /**
   * Returns for each endpoint: its id, the number of queued events, when the oldest happened, the
   * number of dead letters, and its state.
   */
  readWebhooks: `
local found = {}
for _, endpoint in ipairs(redis.call('SMEMBERS', P('webhooks:endpoints'))) do
  local base = 'webhooks:' .. endpoint
  local oldest = redis.call('ZRANGE', P(base .. ':order'), 0, 0, 'WITHSCORES')
  found[#found + 1] = {
    endpoint, redis.call('ZCARD', P(base .. ':order')), oldest[2] or '', redis.call('LLEN', P(base .. ':dead')),
    redis.call('HGETALL', P(base .. ':state')),
  }
end
return found
`,
  readDeadWebhooks: `return redis.call('LRANGE', P('webhooks:' .. ARGV[2] .. ':dead'), 0, -1)`,
  /** Arguments: the endpoint, `all` or `some`, and event ids. */
  resendWebhooks: `
${APPEND}
local endpoint, all, wanted, letters = ARGV[2], ARGV[3] == 'all', {}, {}
local base = 'webhooks:' .. endpoint
for i = 4, #ARGV do wanted[ARGV[i]] = true end
for _, text in ipairs(redis.call('LRANGE', P(base .. ':dead'), 0, -1)) do
  local dead = decoded(text)
  local event = dead and type(dead.event) == 'string' and decoded(dead.event)
  local isWhole = event and type(event.id) == 'string' and type(event.subject) == 'string' and type(event.at) == 'number'
  if not isWhole then error('UNREADABLE dead_letter ' .. endpoint, 0) end
  if all or wanted[event.id] then letters[#letters + 1] = {text = text, event = event, eventText = dead.event} end
end
for _, each in ipairs(letters) do
  redis.call('LREM', P(base .. ':dead'), 1, each.text)
  appendEvent(endpoint, each.event.subject, each.eventText, each.event.id, each.event.at, each.event.customerId)
end
redis.call('HDEL', P(base .. ':state'), 'disabledAt')
for _, subject in ipairs(redis.call('ZRANGE', P(base .. ':due'), 0, -1)) do
  redis.call('ZADD', P(base .. ':due'), nextTurn(), subject)
end
return #letters
`,
};
