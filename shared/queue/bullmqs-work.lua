-- Defines `newBullmqsFinish()` and `newBullmqsTake()`, which make functions of KEYS and ARGV that end a call, and take one, as BullMQ's own
-- scripts do. The functions that BullMQ defines at the start of the scripts are made once for all calls of a batch. `keysToFinish(q)` and
-- `keysToTake(q)` return the KEYS. Commands that do nothing for our calls are left out of both (services/dev/bullmq-lua.mjs).
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

-- Some are read by nothing that is left, and one is the call's own, which is of no queue.
local UNUSED, OWN_KEY = '', 12
local function keysToFinish(q)
  local jobs = q.jobs
  return {
    q.wait, q.active, jobs .. 'prioritized', jobs .. 'events', jobs .. 'stalled', jobs .. 'limiter',
    jobs .. 'delayed', UNUSED, jobs .. 'meta', jobs .. 'pc', UNUSED, '', UNUSED, jobs .. 'marker'
  }
end

-- All but the last are the first of those that end a call.
local function keysToTake(q)
  local keys = {unpack(q.keys, 1, 10)}
  keys[11] = q.keys[14]
  return keys
end
