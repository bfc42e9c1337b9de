-- Records the evidence against a payment that counts as paid. The payment is listed as disputed until an operator has
-- acknowledged the evidence. The first evidence also counts the payment as disputed, if its terms can be read (`row` is not
-- empty). A payment that an operator has settled is neither listed nor counted.
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
