-- Functions for scripts that change queues. Most of these scripts contain the text of a BullMQ script. So they change the
-- queue exactly as BullMQ does, and in the same step tell the producers which queues have calls. They do this through three
-- keys of the partition:
--
--   wake    queues with calls that may be taken now. Each producer waits for names in this key with a blocking command. A
--           name that it pops reaches no other producer.
--   due     queues that must be checked again at a known time: when a delay, a throttle or a rate period ends. All producers
--           poll this key, and move queues whose time has come to `wake`.
--   active  queues with calls in flight.
--
-- An unnecessary name in `wake` costs one fetch that finds nothing. A missing name makes a call wait until a producer scans
-- the registry of all queues (poll.ts). So a fetch that takes a call adds the name again, and only a fetch that can take
-- nothing removes it. A script that adds a call adds the name only if no call waited in the queue before. If calls already
-- waited, the name is in `wake` or `due`, or a producer has just popped it, and its fetch adds it again. For the same reason,
-- a script that ends a call and takes the next one does not add the name. It does so only if the job has limits, because a
-- queue that had to wait for a free slot is in neither key.
--
-- The gate of a job says whether its calls may be taken. It is a hash with the fields paused, throttled, concurrency, max and
-- duration. `throttled` is the end of the throttle, in unix ms of Redis. At most `max` calls are taken in each period of
-- `duration` ms. The gate applies to the queues of all origins of the job together. BullMQ's own pause, concurrency and rate
-- limit are not used. They apply to one queue only, and when they end, no producer is notified.
--
-- With several partitions, a job's limits apply to all of them together. The gate then has the field permit instead of the
-- limits. It means that a worker may take a call only after it has got a permit from partition 0
-- (services/producer/consumer/permits.ts).
--
-- Callbacks use the gate of their receiver, `callback/<receiver>`, which applies to the receiver's queues of all jobs. One
-- more gate, `callback`, is common to all receivers. Its pause and its concurrency apply to each receiver whose own gate has
-- none.
--
-- A script that includes this file must define `prefix`, the common start of all keys, with a colon at its end. `now` is the
-- time of Redis. BullMQ's scripts get the same time as `timestamp`, so no process's clock decides when a call is due.
-- `gateName` is the name of a queue's gate, usually that of a job. Like BullMQ, these functions build most keys themselves,
-- and do not get them as KEYS. They may do so because all keys of a partition are in one hash slot.
--@include "../redis/now.lua"
local timestamp = string.format('%.0f', now)
--@include "./delays.lua"
--@include "./held.lua"
--@include "./awake.lua"
--@include "../call/results/tell-change.lua"
local wake, due, inFlight = prefix .. 'wake', prefix .. 'due', prefix .. 'active'

-- Returns a function of one argument. The function encodes a map as MessagePack: the pairs of `others`, and `key` with the
-- argument as its value. `others` is encoded only once, because BullMQ gets such a map for each call. MessagePack stores the
-- size of a small map in the first byte, so only this byte must change to add `key`.
local function packer(key, others)
  local packed = cmsgpack.pack(others)
  local head, rest = string.char(string.byte(packed) + 1) .. cmsgpack.pack(key), string.sub(packed, 2)
  return function(value) return head .. cmsgpack.pack(value) .. rest end
end

local function queueOf(gateName, name)
  local jobs = prefix .. name .. ':'
  return {gate = gateName, name = name, jobs = jobs, wait = jobs .. 'wait', active = jobs .. 'active'}
end

-- Returns the receiver of the queue's callbacks, or false if the queue is not one of callbacks.
local function receiverOf(q)
  if q.receiver == nil then q.receiver = string.match(q.gate, '^' .. CALLBACKS_GATE .. '/(.*)') or false end
  return q.receiver
end

-- Returns the names of the other queues that share this queue's gate. They have calls of the same job with another origin, or
-- callbacks to the same receiver.
local function otherQueues(q)
  local found = {}
  if receiverOf(q) then
    for _, other in ipairs(redis.call('SMEMBERS', prefix .. 'receiver:' .. receiverOf(q))) do
      if other ~= q.name then found[#found + 1] = other end
    end
    return found
  end
  for origin in string.gmatch(JOB_ORIGINS, '[^ ]+') do
    local other = origin .. '/' .. q.gate
    if other ~= q.name then found[#found + 1] = other end
  end
  return found
end

local OPEN, UNTIL_OPENED = 0, -1

local FREE = {}

-- Returns the ms until the gate of the queue's job opens, and the job's limits. The ms are OPEN if the gate is open. They are
-- UNTIL_OPENED if it opens at no known time, because the job is paused or its concurrency is reached. `leaving` is the number
-- of calls of this queue that end in this step, so they no longer use the concurrency. If a job has no gate, `q` remembers
-- this until the script ends.
local function gate(q, leaving)
  if q.hasNoGate then return OPEN, FREE end
  local job = prefix .. 'job:' .. q.gate
  local ofAll = receiverOf(q) and redis.call('HMGET', prefix .. 'job:' .. CALLBACKS_GATE, 'paused', 'concurrency')
  q.hasNoGate = not ofAll and redis.call('EXISTS', job) == 0
  if q.hasNoGate then return OPEN, FREE end
  local paused, throttled, concurrency, max, duration, permit =
    unpack(redis.call('HMGET', job, 'paused', 'throttled', 'concurrency', 'max', 'duration', 'permit'))
  if ofAll then paused, concurrency = paused or ofAll[1], concurrency or ofAll[2] end
  local limits = {any = concurrency or max or permit, concurrency = concurrency, max = max, duration = duration, permit = permit}
  if paused then return UNTIL_OPENED, limits end
  if throttled then
    local time = redis.call('TIME')
    local ms = tonumber(throttled) - time[1] * 1000 - math.floor(time[2] / 1000)
    if ms > 0 then return ms, limits end
    redis.call('HDEL', job, 'throttled')
  end
  if concurrency then
    local running = redis.call('LLEN', q.active) - leaving
    for _, other in ipairs(otherQueues(q)) do running = running + redis.call('LLEN', prefix .. other .. ':active') end
    if running >= tonumber(concurrency) then return UNTIL_OPENED, limits end
  end
  local taken = prefix .. 'taken:' .. q.gate
  if max and tonumber(redis.call('GET', taken) or 0) >= tonumber(max) then
    local ms = redis.call('PTTL', taken)
    if ms > 0 then return ms, limits end
    redis.call('DEL', taken)
  end
  return OPEN, limits
end

-- Adds a queue to `due` for the time when its gate opens, in `ms`. Without a known time, does nothing.
local function dueWhenOpen(name, ms)
  if ms > 0 then redis.call('ZADD', due, 'LT', now + ms, name) end
end

local function closed(q, ms)
  redis.call('ZREM', wake, q.name)
  dueWhenOpen(q.name, ms)
end

-- Wakes producers for a queue with waiting calls. While its gate is closed, adds the queue to `due` instead.
local function wakeOrDelay(name, ms)
  if ms == OPEN then awake(wake, name) else dueWhenOpen(name, ms) end
end

-- Returns whether a queue has calls that wait, or delayed calls that are due.
local function waits(name)
  local jobs = prefix .. name .. ':'
  return redis.call('EXISTS', jobs .. 'wait') == 1 or isDue(jobs .. 'delayed')
end

-- Returns the job's other queues that have waiting calls.
local function waitingOthers(q)
  local found = {}
  for _, other in ipairs(otherQueues(q)) do
    if waits(other) then found[#found + 1] = other end
  end
  return found
end

-- Wakes producers for the waiting calls of the queue. If the job has limits, all its queues share them. The other queues are
-- then woken first, so that this queue does not get each slot that it has freed.
local function wakeProducers(q)
  local ms, limits = gate(q, 0)
  if limits.any then
    for _, other in ipairs(waitingOthers(q)) do
      wakeOrDelay(other, ms)
      if ms > 0 then ms = ms + 1 end
    end
  end
  if waits(q.name) then wakeOrDelay(q.name, ms) end
end

-- Returns the id of the call that BullMQ takes next, its stored size, and the number of processes that died with the call in
-- flight.
local function head(q)
  local id = redis.call('LINDEX', q.wait, '-1')
    or redis.call('ZRANGEBYSCORE', q.jobs .. 'delayed', '-inf', past, 'LIMIT', 0, 1)[1]
  if not id then return nil, 0, 0 end
  local job = q.jobs .. id
  return id, redis.call('HSTRLEN', job, 'data'), tonumber(redis.call('HGET', job, 'stc') or 0)
end

-- Updates the record of a call that was just taken: changes the state FAILED to QUEUED. The record is FAILED if an operator
-- has replayed the call, or a producer died while it moved the call to the failed calls. If a crashed worker had the call,
-- marks the record as unsure, because the effect of that attempt is unknown. Returns the previous state and the retention
-- time after the call's end, or UNREADABLE if the key has another type.
local function queued(id, crashes)
  local record = prefix .. 'call:' .. id
  local found = redis.pcall('HMGET', record, 'st', 'w')
  if found.err then return 'UNREADABLE', '' end
  local st, windowMs = unpack(found)
  if st and crashes > 0 then redis.call('HSET', record, 'unsure', 1) end
  if st == 'FAILED' then
    changeState(record, id, 'QUEUED', now)
    redis.call('PERSIST', record)
  end
  return st or '', windowMs or ''
end

--@include "./last-failure.lua"

-- Returns the number of a call's earlier attempts, the time of its last replay (or 0), and its last failure. `takes` is how
-- often the call was taken.
local function attemptsOf(id, takes)
  local log = prefix .. 'attempts:' .. id
  local line = takes > 1 and redis.call('LINDEX', log, -1)
  if not line then return 0, 0, '' end
  local newest = cjson.decode(line)
  return newest.n or 0, newest.ready or 0, lastFailure(log)
end

-- Returns the time when the last pause of the queue's job ended, or 0 if it is unknown. Reads it only once in a script.
local function resumedAt(q)
  if not q.resumedAt then
    local function of(name) return tonumber(redis.call('HGET', prefix .. 'resumed', name) or 0) end
    q.resumedAt = math.max(of(q.gate), receiverOf(q) and of(CALLBACKS_GATE) or 0)
  end
  return q.resumedAt
end

-- Changes the reply of BullMQ's script that takes a call into the one that our producers expect. Returns whether the script
-- took a call. If it did, the last element of the reply becomes the call. Otherwise that element becomes the ms until the
-- next delayed call is due, or 0.
local function fetched(q, reply, limits)
  if type(reply) ~= 'table' or type(reply[1]) ~= 'table' then
    redis.call('ZREM', wake, q.name)
    local nextAt = type(reply) == 'table' and tonumber(reply[4]) or 0
    if nextAt >= math.floor(heldScore / 0x1000) then reply[4] = 0
    elseif nextAt > 0 then reply[4] = math.max(1, nextAt - now) end
    -- This queue has no call for the free slot of the job, so the job's other queues are woken.
    if limits.concurrency and redis.call('EXISTS', q.wait) == 0 then wakeProducers(q) end
    return false
  end
  local job, fields = {}, reply[1]
  for i = 1, #fields, 2 do job[fields[i]] = fields[i + 1] end
  reply[1] = 0
  local id, takes, crashes = reply[2], tonumber(job.ats or 0), tonumber(job.stc or 0)
  local attempts, replayedAt, failure = attemptsOf(id, takes)
  local held = math.max(replayedAt, resumedAt(q))
  reply[4] = {job.data or '', tonumber(job.timestamp or 0), tonumber(job.atm or 0), takes, attempts, crashes, held, failure, queued(id, crashes)}
  local taken = prefix .. 'taken:' .. q.gate
  if limits.max and redis.call('INCR', taken) == 1 then redis.call('PEXPIRE', taken, limits.duration) end
  return true
end

--@include "./drop-failed.lua"

-- Removes the queue from the set of queues with calls in flight if it has none.
local function updateInFlight(q)
  if redis.call('EXISTS', q.active) == 0 then redis.call('SREM', inFlight, q.name) end
end

-- Registers a queue, because it has a call now. A queue leaves the registry only when it is empty. `opts.maxLenEvents` limits
-- BullMQ's event stream to about 100 entries instead of 10,000, because this program only reads the time of the newest entry.
local function register(q)
  if redis.call('SADD', prefix .. 'queues', q.name) == 0 then return end
  redis.call('HSET', q.jobs .. 'meta', 'opts.maxLenEvents', 100)
  if receiverOf(q) then redis.call('SADD', prefix .. 'receiver:' .. receiverOf(q), q.name) end
end

-- Wakes producers after a call was added, if no call waited before. `waits` is the number of calls that wait now.
local function added(q, waits)
  if waits > 1 then return end
  register(q)
  wakeOrDelay(q.name, (gate(q, 0)))
end
