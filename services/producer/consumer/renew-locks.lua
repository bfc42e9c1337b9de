-- Renews the locks of calls, including expired locks if no worker has taken the call back yet. Also removes the calls from
-- BullMQ's set of possibly stalled calls. Otherwise BullMQ would move them back to the waiting calls although their locks are
-- valid. Returns the positions of the calls that this worker has lost. If such a call was taken back, its crash count went
-- up. This worker did not crash, so the script reduces the count again.
--@include "../../../shared/redis/even-if-full.lua"
local lost = {}
for i = 0, #KEYS / WIDTH.callKeys - 1 do
  local job, lock, stalled, active = unpack(KEYS, WIDTH.callKeys * i + FIRST.callKeys, WIDTH.callKeys * (i + 1))
  local token, id, crashes = unpack(ARGV, WIDTH.calls * i + FIRST.calls, WIDTH.calls * (i + 1) + FIRST.calls - 1)
  local by = redis.call('GET', lock)
  if by == token or (not by and redis.call('LPOS', active, id)) then
    redis.call('SET', lock, token, 'PX', ARGV.lockMs)
    redis.call('SREM', stalled, id)
  else
    lost[#lost + 1] = i
    if tonumber(redis.call('HGET', job, 'stc') or 0) > tonumber(crashes) then redis.call('HINCRBY', job, 'stc', -1) end
  end
end
return lost
