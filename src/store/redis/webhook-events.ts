import { EXPIRY_LOOK_BACK_MS, MAX_QUEUED, SHARE, type WebhookSubscription } from '../webhook-store.js';

/** The functions that scripts call if there are no subscriptions. */
export const NO_WEBHOOKS = `
local function tellToken() end
local function tellCreated() end
local function tellRemoved() end
local function tellReplaced() end
local function tellExpiring() end
local function tellUserLocked() end
`;

/**
 * Returns Lua functions that queue events atomically with the change that causes them. The
 * subscriptions are part of the text, so the scripts of a Latchkey without webhooks check nothing.
 */
export function webhookFunctions(subscriptions: readonly WebhookSubscription[]): string {
  if (subscriptions.length === 0) return NO_WEBHOOKS;
  const table = subscriptions.map(
    ({ endpoint, events }) =>
      `{${luaText(endpoint)}, {${events.map((event) => `[${luaText(event)}] = true`).join(', ')}}}`,
  );
  return `local subscriptions = {${table.join(', ')}}\n${TELL}`;
}

function luaText(text: string): string {
  return JSON.stringify(text.replace(/[^\x20-\x7e]/g, ''));
}

/**
 * Lua functions that append an event to the queue of an endpoint.
 *
 * Of an endpoint's keys, `due` holds subjects by the time at which their first event is sent, or by
 * their turn: a number lower than every time, so that no two clocks have to agree. `order` holds
 * event ids by the time at which they happened, and `held` the number of events by customer.
 */
export const APPEND = `
local function nextTurn() return redis.call('INCR', P('webhooks:number')) end
local function addHeld(base, customer, count)
  local held = P(base .. ':held')
  customer = type(customer) == 'string' and customer or ''
  if redis.call('HINCRBY', held, customer, count) <= 0 then redis.call('HDEL', held, customer) end
end
local function appendEvent(endpoint, subject, text, id, at, customer)
  local base = 'webhooks:' .. endpoint
  addHeld(base, customer, 1)
  redis.call('SADD', P('webhooks:endpoints'), endpoint)
  redis.call('RPUSH', P(base .. ':queue:' .. subject), text)
  redis.call('ZADD', P(base .. ':order'), at, id)
  redis.call('ZADD', P(base .. ':due'), 'NX', nextTurn(), subject)
end
`;

const TELL = `
${APPEND}
local function webhookTime()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
-- Expiries up to then are told, and those of the next millisecond up to an id, if there is one.
local function toldUntil(now)
  local told = tonumber(redis.call('GET', P('webhooks:expired_until')) or now) or now
  told = math.max(told, now - ${EXPIRY_LOOK_BACK_MS})
  local at, id = string.match(redis.call('GET', P('webhooks:expired_part')) or '', '^(%d+):(.*)$')
  return told, tonumber(at) == told and id or nil
end
local function queueEvent(kind, subject, content)
  local text, id, at
  for _, each in ipairs(subscriptions) do
    if each[2][kind] then
      local base = 'webhooks:' .. each[1]
      local free = ${MAX_QUEUED} - redis.call('ZCARD', P(base .. ':order'))
      local held = tonumber(redis.call('HGET', P(base .. ':held'), content.customerId or '') or 0)
      local share = kind == 'token.revoked' and ${SHARE.revocation} or ${SHARE.other}
      if free < ${MAX_QUEUED} and held >= free * share then
        redis.call('SADD', P('webhooks:endpoints'), each[1])
        redis.call('HINCRBY', P(base .. ':state'), 'dropped', 1)
      else
        if not text then
          at = webhookTime()
          id = string.format('msg_%.0f_%.0f', at, nextTurn())
          content.v, content.id, content.type, content.at, content.subject = 1, id, kind, at, subject
          text = cjson.encode(content)
        end
        appendEvent(each[1], subject, text, id, at, content.customerId)
      end
    end
  end
end
local function isWanted(kind)
  for _, each in ipairs(subscriptions) do if each[2][kind] then return true end end
  return false
end
local function tellToken(kind, token, text)
  if not isWanted(kind) then return end
  local owner = decoded(redis.call('GET', P('user:' .. token.userId)))
  queueEvent(kind, 'token:' .. token.id, {
    token = text or redis.call('GET', P('token:' .. token.digest)) or nil,
    customerId = owner and owner.customerId or nil,
    use = redis.call('HGET', P('uses'), token.id) or nil,
  })
end
local function expiryTime(token) return type(token.expiresAt) == 'number' and token.expiresAt or math.huge end
-- Compares bytes, as sorted sets do: the operators of Lua follow the locale.
local function isAfter(a, b)
  for i = 1, math.min(#a, #b) do
    if a:byte(i) ~= b:byte(i) then return a:byte(i) > b:byte(i) end
  end
  return #a > #b
end
local function isTold(token, now)
  local told, id = toldUntil(now)
  local at = expiryTime(token)
  return at <= told or (id ~= nil and at == told + 1 and not isAfter(token.id, id))
end
local function tellCreated(token, text) tellToken('token.created', token, text) end
-- Its record is about to go: it was revoked, unless its time was up.
local function tellRemoved(token)
  local now = webhookTime()
  if expiryTime(token) > now then tellToken('token.revoked', token)
  elseif not isTold(token, now) then tellToken('token.expired', token) end
end
-- It got another expiry: one that lies before those that are still to be told.
local function tellReplaced(before, token, text)
  local now = webhookTime()
  if isTold(token, now) and not isTold(before, now) then tellToken('token.expired', token, text) end
end
local function tellExpiring(id)
  local token = tokenById(id)
  if token then tellToken('token.expiring', token) end
end
local function tellUserLocked(user)
  local locked = {userId = user.id, reason = 'user_locked', retryAfter = cjson.null}
  queueEvent('login.locked', 'user:' .. user.id, {customerId = user.customerId, locked = locked})
end
`;

/** Maximum number of expired tokens per script. */
const EXPIRED_BATCH = 200;

export const webhookEventScripts = {
  /** Arguments: a `LockedLogin` as JSON, and the customer's id; no JSON if nobody was locked out. */
  queueLocked: `
if ARGV[2] == '' then
  if isWanted('login.locked') then nextTurn() end
  return 0
end
local locked = cjson.decode(ARGV[2])
queueEvent('login.locked', 'user:' .. locked.userId, {customerId = ARGV[3], locked = locked})
return 0
`,
  queueExpired: `
useReserve()
if redis.call('GET', P('webhooks:lease')) ~= ARGV[2] then return 0 end
local now = webhookTime()
local told, id = toldUntil(now)
local index = P('expiry:tokens')
local first
if id then
  -- The place right after the last token, which may have been removed.
  local place = id .. string.char(0)
  redis.call('ZADD', index, string.format('%.0f', told + 1), place)
  first = redis.call('ZRANK', index, place)
  redis.call('ZREM', index, place)
else
  first = redis.call('ZCOUNT', index, '-inf', string.format('%.0f', told))
end
local rows = redis.call('ZRANGE', index, first, first + ${EXPIRED_BATCH - 1}, 'WITHSCORES')
local last
local expired = {}
for i = 1, #rows, 2 do
  if tonumber(rows[i + 1]) > now then break end
  expired[#expired + 1] = rows[i]
  last = i
end
for _, token in ipairs(tokensById(expired)) do tellToken('token.expired', token) end
if last == ${2 * EXPIRED_BATCH - 1} then
  local before = string.format('%.0f', tonumber(rows[last + 1]) - 1)
  redis.call('SET', P('webhooks:expired_until'), before)
  redis.call('SET', P('webhooks:expired_part'), before .. ':' .. rows[last])
  return 1
end
redis.call('SET', P('webhooks:expired_until'), string.format('%.0f', now))
redis.call('DEL', P('webhooks:expired_part'))
return 0
`,
};
