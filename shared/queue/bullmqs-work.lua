-- Defines `newBullmqsFinish()` and `newBullmqsTake()`. Each returns a function of KEYS and ARGV that ends or takes a call, as
-- BullMQ's own script does. BullMQ's scripts begin with definitions of functions. These are created only once for a batch.
-- `keysToFinish(q)` and `keysToTake(q)` return the KEYS for a queue. The build leaves commands without effect on our calls
-- out of both scripts (services/dev/bullmq-lua.mjs).
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

-- UNUSED fills the keys that the shortened scripts do not read. OWN_KEY is the position of the key of the call itself.
local UNUSED, OWN_KEY = '', 12
local function keysToFinish(q)
  local jobs = q.jobs
  return {
    q.wait, q.active, jobs .. 'prioritized', jobs .. 'events', jobs .. 'stalled', jobs .. 'limiter',
    jobs .. 'delayed', UNUSED, jobs .. 'meta', jobs .. 'pc', UNUSED, '', UNUSED, jobs .. 'marker'
  }
end

-- Returns the KEYS to take a call: the first ten KEYS of `keysToFinish`, and its last one.
local function keysToTake(q)
  local keys = {unpack(q.keys, 1, 10)}
  keys[11] = q.keys[14]
  return keys
end
