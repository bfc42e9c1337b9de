-- Defines `newBullmqsAdd()`, which makes a function of KEYS and ARGV that adds a call as BullMQ's own script does: a call that its queue
-- has already is left alone. The functions that BullMQ defines at the start of the script are made once for all calls of a batch.
-- `keysToAdd(q)` returns the KEYS.
local function newBullmqsAdd()
--@include "bullmq:addStandardJob-9/functions"
return function(KEYS, ARGV)
--@include "bullmq:addStandardJob-9/body"
end
end

local function keysToAdd(q)
  local jobs = q.jobs
  return {
    jobs .. 'wait', jobs .. 'paused', jobs .. 'meta', jobs .. 'id', jobs .. 'completed', jobs .. 'delayed',
    jobs .. 'active', jobs .. 'events', jobs .. 'marker'
  }
end
