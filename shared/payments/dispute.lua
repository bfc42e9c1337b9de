-- Records what contradicts a payment that counts as paid. It is listed as disputed until an operator has seen it, unless
-- an operator has settled it. The first time, the same step counts it as disputed, if its terms can be read.
--@include "../call/change-record.lua"
--@include "../redis/now.lua"
--@include "../telemetry/series/add-amounts.lua"
if not st or st == 'SETTLING' or st == 'REVIEW' or st == 'VOID' then return end
local settlement, acknowledged = unpack(redis.call('HMGET', KEYS.payment, 'settlement', 'acknowledged'))
local ok, known = pcall(cjson.decode, settlement or '')
local isByOperator = ok and type(known) == 'table' and known.by == 'operator'
local isFirst = redis.call('HSET', KEYS.payment, 'reason', ARGV.reason) == 1
if isByOperator then return end
if not acknowledged then redis.call('ZADD', KEYS.disputed, 'NX', now, ARGV.id) end
if isFirst and ARGV.row ~= '' then addAmounts(KEYS.ofDay, {[ARGV.row] = {'1', ARGV.amount}}) end
