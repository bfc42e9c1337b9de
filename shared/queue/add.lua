-- Defines `add(jobName, name, id, data)` for a script that knows `prefix`: it adds a call as stored to a queue, as BullMQ's own script
-- does. `endBatch()` ends the script. Nobody here reads BullMQ's event stream, which keeps 10,000 entries by default.
--@include "./batch.lua"
--@include "./bullmqs-add.lua"
local bullmq = newBullmqsAdd()
local optionsOf = packer('jobId', {attempts = JOB_OPTIONS.attempts, removeOnFail = JOB_OPTIONS.removeOnFail})
local function add(jobName, name, id, data)
  local q = opened(jobName, name)
  q.keys = q.keys or keysToAdd(q)
  q.length = q.length or redis.call('LLEN', q.wait)
  bullmq(q.keys, {cmsgpack.pack({q.jobs, id, JOB_NAME, timestamp}), data, optionsOf(id)})
  local length = redis.call('LLEN', q.wait)
  if length > q.length then q.bytes = q.bytes + #data end
  q.length = length
  added(q, length)
end
