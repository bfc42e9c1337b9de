-- KEYS record, payment
-- ARGV decision
-- Notes that an operator has seen what contradicts a payment that counts as paid. Answers 1 if there is something that
-- nobody had seen.
--@include "../redis/even-if-full.lua"
if tonumber(redis.call('HGET', KEYS.record, 'v') or 1) > VERSIONS.record then return redis.error_reply('NEWER record') end
local st = redis.call('HGET', KEYS.record, 'st')
if not st or st == 'SETTLING' or st == 'REVIEW' or st == 'VOID' then return 0 end
if redis.call('HEXISTS', KEYS.payment, 'reason') == 0 then return 0 end
return redis.call('HSETNX', KEYS.payment, 'acknowledged', ARGV.decision)
