-- Drops the body of a payment whose outcome is open, and what a settle needs, so that no settle is sent any more. The
-- payment no longer counts for its client. `decision` is the operator's, and `line` that of the audit.
-- Answers DROPPED, or the state found.
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
