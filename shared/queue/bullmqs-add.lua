-- Defines `addCall(q, id, data)`, which adds a stored call to the queue `q`, as BullMQ's own script does. Needs the functions
-- of frame.lua. If the queue already has the call, nothing changes. Returns the bytes that were added. `q.length` is the
-- number of waiting calls. BullMQ's script begins with definitions of functions. These are created only once for a batch.
local addCall
do
--@include "bullmq:addStandardJob-9/functions"
local function bullmq(KEYS, ARGV)
--@include "bullmq:addStandardJob-9/body"
end
local optionsOf = packer('jobId', {attempts = JOB_OPTIONS.attempts, removeOnFail = JOB_OPTIONS.removeOnFail})
addCall = function(q, id, data)
  local jobs = q.jobs
  q.keys = q.keys or {
    jobs .. 'wait', jobs .. 'paused', jobs .. 'meta', jobs .. 'id', jobs .. 'completed', jobs .. 'delayed',
    jobs .. 'active', jobs .. 'events', jobs .. 'marker'
  }
  q.length = q.length or redis.call('LLEN', q.wait)
  bullmq(q.keys, {cmsgpack.pack({jobs, id, JOB_NAME, timestamp}), data, optionsOf(id)})
  local length = redis.call('LLEN', q.wait)
  local grown = length > q.length and #data or 0
  q.length = length
  return grown
end
end
