-- First step of a replay (replay.ts): marks a failed call as queued. Returns 0 if the call cannot be replayed, otherwise 1.
-- If an earlier replay crashed after this step, the audit log already has its line, and no second line is written.
--@include "./while-failed.lua"
--@include "./is-ended.lua"
--@include "../redis/audit/add-act.lua"
if st ~= 'INJECTED' and isEnded(st) then return 0 end
if st == 'FAILED' then
  changeState(KEYS.record, ARGV.id, 'QUEUED', ARGV.now)
  redis.call('PERSIST', KEYS.record)
end
if redis.call('ZADD', KEYS.since, ARGV.now, ARGV.id) == 1 then addAct(ARGV.line) end
return 1
