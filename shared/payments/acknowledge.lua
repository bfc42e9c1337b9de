-- Records that an operator has seen the evidence against a payment that counts as paid, and removes the payment from the list
-- of disputed ones. Returns 1 if the evidence was not acknowledged before. Returns 0 if it was, if there is no such evidence,
-- or if the payment does not count as paid.
--@include "../call/change-record.lua"
--@include "../redis/audit/by-age.lua"
if not st or st == 'SETTLING' or st == 'REVIEW' or st == 'VOID' then return 0 end
if redis.call('HEXISTS', KEYS.payment, 'reason') == 0 then return 0 end
if redis.call('HSETNX', KEYS.payment, 'acknowledged', ARGV.decision) == 0 then return 0 end
redis.call('ZREM', KEYS.disputed, ARGV.id)
addByAge(KEYS.money, ARGV.line)
return 1
