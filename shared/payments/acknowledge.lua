-- Records that an operator has seen the evidence against a payment that counts as paid, and removes it from the list of
-- disputed payments. Returns 1 if the evidence was not acknowledged before.
--@include "../call/change-record.lua"
--@include "../redis/audit/by-age.lua"
if not st or st == 'SETTLING' or st == 'REVIEW' or st == 'VOID' then return 0 end
if redis.call('HEXISTS', KEYS.payment, 'reason') == 0 then return 0 end
if redis.call('HSETNX', KEYS.payment, 'acknowledged', ARGV.decision) == 0 then return 0 end
redis.call('ZREM', KEYS.disputed, ARGV.id)
addByAge(KEYS.money, ARGV.line)
return 1
