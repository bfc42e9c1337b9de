-- Records what contradicts a payment that counts as paid. It is listed as disputed until an operator has seen it, unless
-- an operator has settled it.
--@include "../call/change-record.lua"
--@include "../redis/now.lua"
if not st or st == 'SETTLING' or st == 'REVIEW' or st == 'VOID' then return end
local settlement, acknowledged = unpack(redis.call('HMGET', KEYS.payment, 'settlement', 'acknowledged'))
local ok, known = pcall(cjson.decode, settlement or '')
local isByOperator = ok and type(known) == 'table' and known.by == 'operator'
redis.call('HSET', KEYS.payment, 'reason', ARGV.reason)
if not acknowledged and not isByOperator then redis.call('ZADD', KEYS.disputed, 'NX', now, ARGV.id) end
