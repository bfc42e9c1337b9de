-- Answers 1 if the change was made. A replay that was begun before, and died, has its line of the audit already.
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
