-- Renews the locks on the calls, also those that have run out, if nobody has taken the call back yet; and takes the
-- calls off the list of those that may be stalled, or a call would be moved although its lock holds. Answers the
-- positions of the calls that are no longer in hand. If one was taken back, that has counted this worker as one that
-- ended with it, which it has not.
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
