-- Defines `newBullmqsFinish()` and `newBullmqsTake()`, which make functions of KEYS and ARGV that end a call, and take one, as BullMQ's own
-- scripts do. The functions that BullMQ defines at the start of the scripts are made once for all calls of a batch. `keysToFinish(q)` and
-- `keysToTake(q)` return the KEYS.
local function newBullmqsFinish()
--@include "bullmq:moveToFinished-14/functions"
return function(KEYS, ARGV)
--@include "bullmq:moveToFinished-14/body"
end
end

local function newBullmqsTake()
--@include "bullmq:moveToActive-11/functions"
return function(KEYS, ARGV)
--@include "bullmq:moveToActive-11/body"
end
end

-- One of them is the call's own, which is of no queue.
local OWN_KEY = 12
local function keysToFinish(q)
  local jobs = q.jobs
  return {
    jobs .. 'wait', jobs .. 'active', jobs .. 'prioritized', jobs .. 'events', jobs .. 'stalled', jobs .. 'limiter',
    jobs .. 'delayed', jobs .. 'paused', jobs .. 'meta', jobs .. 'pc', jobs .. 'completed', '',
    jobs .. 'metrics:completed', jobs .. 'marker'
  }
end

-- All but the last are the first of those that end a call.
local function keysToTake(q)
  local keys = {unpack(q.keys, 1, 10)}
  keys[11] = q.keys[14]
  return keys
end
