-- Notes that an operator has seen what contradicts a payment that counts as paid, and lists it no longer. Answers 1 if there
-- is something that nobody had seen.
--@include "../call/change-record.lua"
--@include "../redis/audit/by-age.lua"
if not st or st == 'SETTLING' or st == 'REVIEW' or st == 'VOID' then return 0 end
if redis.call('HEXISTS', KEYS.payment, 'reason') == 0 then return 0 end
if redis.call('HSETNX', KEYS.payment, 'acknowledged', ARGV.decision) == 0 then return 0 end
redis.call('ZREM', KEYS.disputed, ARGV.id)
addByAge(KEYS.money, ARGV.line)
return 1
