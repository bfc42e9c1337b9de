-- Defines `addCall(q, id, data)`, after frame.lua: it adds a call as stored to the queue `q`, as BullMQ's own script does. A call that the
-- queue has already is left alone. Returns by how many bytes the stored calls of the queue have grown; `q.length` is how many wait now. The
-- functions that BullMQ defines at the start of the script are made once for all calls of a batch. Nobody here reads BullMQ's event stream,
-- which keeps 10,000 entries by default.
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
