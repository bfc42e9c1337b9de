-- Claims a payment, or refuses the claim. A payment that is already known gets its answer before any limit is tested, because
-- it adds nothing.
--
-- If the payment has no identifier or no idempotency key, the payment's own key is passed in the place of that key. The
-- caller's nonce is remembered until `nonceUntil`, and the quote until `quoteUntil` (unix ms). 0 means that there is no nonce
-- or quote. After that time, a nonce or quote is refused as expired, even if the gateway's clock is behind. Otherwise it
-- could be used again once it is forgotten. The caller's nonce may be kept in another partition. `nonceUntil` is then 0, and
-- `nonceRefusal` is that partition's reason to refuse the nonce, or empty. `clients` is a JSON list of the client's
-- rate-limit keys.
--
-- Returns NEW and the age of the claim in ms, KNOWN and the id of the known call, or the reason why the claim is refused.
-- This reason is also IDENTIFIER_CONFLICT if the identifier, the idempotency key and the quote belong to different calls.
--@include "../redis/now.lua"
--@include "./usage.lua"
local id, bh, rt = ARGV.id, ARGV.bodySha256, ARGV.route
local known = redis.call('HMGET', KEYS.record, 'st', 'bh', 'rt', 'by')
if known[1] then
  if known[2] ~= bh or known[3] ~= rt then return {'CONFLICT'} end
  local isOwn = known[4] == ARGV.by and known[1] == 'SETTLING'
  local claimedAt, dropped = unpack(redis.call('HMGET', KEYS.payment, 'claimed_at', 'dropped'))
  if isOwn and not dropped then return {'NEW', now - claimedAt} end
  return {'KNOWN', id}
end
local names, named = {KEYS.identifier, KEYS.idempotencyKey}, nil
for i, name in ipairs(names) do
  local same = name == KEYS.payment and {} or redis.call('HMGET', name, 'id', 'bh', 'rt')
  if same[1] then
    if named and named ~= same[1] then return {'IDENTIFIER_CONFLICT'} end
    if same[2] ~= bh or same[3] ~= rt then return {i == 1 and 'IDENTIFIER_CONFLICT' or 'IDEMPOTENCY_KEY_REUSED'} end
    named = same[1]
  end
end
local quoted = ARGV.quoteUntil ~= '0' and redis.call('GET', KEYS.quote)
if named and quoted and quoted ~= named then return {'IDENTIFIER_CONFLICT'} end
if named then return {'KNOWN', named} end
if redis.call('EXISTS', KEYS.drained) == 1 then return {'DRAINED'} end
if redis.call('HEXISTS', KEYS.deployment, 'unaudited') == 1 then return {'UNAUDITED'} end
if redis.call('SCARD', KEYS.open) >= tonumber(ARGV.openMax) then return {'TOO_MANY_OPEN'} end
local nonceMs, quoteMs = ARGV.nonceUntil - now, ARGV.quoteUntil - now
if ARGV.nonceRefusal ~= '' then return {ARGV.nonceRefusal} end
if ARGV.nonceUntil ~= '0' and redis.call('EXISTS', KEYS.callerNonce) == 1 then return {'NONCE_USED'} end
if ARGV.nonceUntil ~= '0' and nonceMs <= 0 then return {'NONCE_EXPIRED'} end
if quoted then return {'QUOTE_USED'} end
if ARGV.quoteUntil ~= '0' and quoteMs <= 0 then return {'QUOTE_EXPIRED'} end
local clients, bytes = cjson.decode(ARGV.clients), USAGE_BASE_BYTES
for i = FIRST.fields, #ARGV do bytes = bytes + #ARGV[i] end
local refused = refusesUsage(KEYS.usageBy, clients, bytes, tonumber(ARGV.unsettledBytesMax))
if refused then return {refused} end
addUsage(KEYS.usage, KEYS.usageBy, id, clients, bytes)
redis.call('HSET', KEYS.record, 'st', 'SETTLING', 'unsure', 0, 'bh', bh, 'rt', rt, 'w', ARGV.windowMs, 'at', now, 'by', ARGV.by)
redis.call('HSET', KEYS.payment, 'claimed_at', now, 'dispatched_at', now, unpack(ARGV, FIRST.fields))
redis.call('ZADD', KEYS.due, now + ARGV.dueInMs, id)
redis.call('ZADD', KEYS.payments, now, id)
redis.call('ZADD', KEYS.unresolved, now, id)
redis.call('SADD', KEYS.open, id)
for _, name in ipairs(names) do
  if name ~= KEYS.payment then redis.call('HSET', name, 'id', id, 'bh', bh, 'rt', rt) end
end
if ARGV.nonceUntil ~= '0' then redis.call('SET', KEYS.callerNonce, id, 'PX', nonceMs) end
if ARGV.quoteUntil ~= '0' then redis.call('SET', KEYS.quote, id, 'PX', quoteMs) end
return {'NEW', 0}
