-- Moves calls in flight whose locks have expired back to the waiting calls, because their workers have died or stalled. Marks
-- the calls' records as unsure, because the effect of the attempts is unknown, and logs these attempts as lost.
--@include "./wrapper-start.lua"
--@include "./call-log.lua"
--@include "./is-ended.lua"
words[3] = timestamp
local function bullmq(KEYS, ARGV)
--@include "bullmq:moveStalledJobsToWait-9"
end
local ids = bullmq(KEYS, words)
for _, id in ipairs(ids) do
  local record = prefix .. 'call:' .. id
  local st = redis.call('HGET', record, 'st')
  if st then redis.call('HSET', record, 'unsure', 1) end
  if not isEnded(st) then
    local take = tonumber(redis.call('HGET', q.jobs .. id, 'ats') or 0)
    logLost(prefix .. 'attempts:' .. id, prefix .. 'history-off', take, timestamp)
  end
end
wakeProducers(q)
updateInFlight(q)
return ids
