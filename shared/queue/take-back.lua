-- KEYS ...keys
-- ARGV prefix, gate, queue, ...words
-- Takes back the calls of dead workers. Nobody knows how far these came.
--@include "./surround.lua"
words[3] = timestamp
local function bullmq(KEYS, ARGV)
--@include "bullmq:moveStalledJobsToWait-9"
end
local ids = bullmq(KEYS, words)
for _, id in ipairs(ids) do
  local record = prefix .. 'call:' .. id
  if redis.call('EXISTS', record) == 1 then redis.call('HSET', record, 'unsure', 1) end
end
tell(q)
updateInHand(q)
return ids
