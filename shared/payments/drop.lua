-- Deletes the call of a payment that is SETTLING or in REVIEW, and its request to the facilitator, so that no further settle
-- request is sent. The payment no longer counts towards the limit on unsettled payments. `decision` is the operator's
-- decision, and `line` the audit line. Returns DROPPED, or the state found.
--@include "../call/change-record.lua"
--@include "./usage.lua"
--@include "../redis/audit/by-age.lua"
if st ~= 'SETTLING' and st ~= 'REVIEW' then return st end
if redis.call('HSETNX', KEYS.payment, 'dropped', ARGV.decision) == 1 then
  redis.call('HDEL', KEYS.payment, 'call', 'request')
  releaseUsage(KEYS.usage, KEYS.usageBy, ARGV.id)
  addByAge(KEYS.money, ARGV.line)
end
return DROPPED
