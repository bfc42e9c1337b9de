-- Functions for our scripts, each of which wraps a BullMQ script. So one script changes a queue as BullMQ does, and notifies
-- the producers. Three keys of a partition notify them:
--
--   wake    queues with calls that may be taken now. Each producer blocks on this key, and takes names out.
--   due     queues that must be checked again at a time: when a delay, a throttle or a rate period ends. The producer that
--           polls moves queues whose time has come to `wake`.
--   active  queues with calls in flight.
--
-- An unnecessary name in `wake` costs one fetch that finds nothing. A missing name makes a call wait for the next scan of the
-- registry (poll.ts). So a name leaves `wake` only after a fetch has found that nothing can be taken. An add wakes a producer
-- only if no call waited in the queue before. If calls already waited, the queue's name is in `wake` or `due`, or a producer
-- has just taken it out and adds it again when it fetches. So a script that ends a call and takes the next one wakes no
-- producer either, unless the job has limits.
--
-- The gate of a job says whether its calls may be taken. It is a hash with the fields paused, throttled (until, unix ms of
-- Redis), concurrency, max and duration (ms). It applies to all queues of the job together, of every origin. BullMQ's
-- own pause, concurrency and rate are not used: they apply to one queue, and write no marker (a wake-up) when they end.
--
-- With several partitions, a job's limits apply to all of them together. The gate then has the field permit instead: only a
-- worker with a permit may take a call (services/producer/consumer/permits.ts).
--
-- Callbacks use the gate of their receiver, `callback/<receiver>`, which applies to the receiver's queues of all jobs. If it
-- has no pause or no concurrency, those of the gate `callback` apply, which is common to all receivers.
--
-- The functions below need `prefix`, which ends with a colon, and `now`, by Redis' clock. A queue `q` has the gate
-- `gateName`, which usually is the gate of a job. BullMQ's scripts get the same time as `timestamp`, so no process's clock
-- decides when a call is due. Like BullMQ, these functions build most keys from a prefix; all keys are in one hash slot.
--@include "../redis/now.lua"
local timestamp = string.format('%.0f', now)
--@include "./delays.lua"
--@include "./held.lua"
--@include "./awake.lua"
--@include "../call/results/tell-change.lua"
local wake, due, inFlight = prefix .. 'wake', prefix .. 'due', prefix .. 'active'

-- Returns a function that packs a map: the pairs of `others`, and `key` with the function's argument. `others` is packed
-- only once. MessagePack stores the size of a small map in the first byte, so only this byte must change to add `key`.
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

-- Returns the names of the other queues that share this queue's gate: those of the same job with another origin, or those with
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

-- Returns the ms until the gate of the queue's job opens, and the job's limits. The ms are OPEN if the gate is open, and
-- UNTIL_OPENED if only another change opens it. `leaving` is the number of calls of this queue that end in this step. If a
-- job has no gate, `q` remembers this until the script ends.
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

-- Wakes producers for the waiting calls of the queue. If the job has limits, its other queues come first, because they share
-- the free slots.
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

-- Updates the record of a call that was just taken: changes the state FAILED to QUEUED. If a crashed worker had the call,
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

-- Returns the end of the last pause of the queue's job, or 0 if it is unknown. Reads it once per script.
local function resumedAt(q)
  if not q.resumedAt then
    local function of(name) return tonumber(redis.call('HGET', prefix .. 'resumed', name) or 0) end
    q.resumedAt = math.max(of(q.gate), receiverOf(q) and of(CALLBACKS_GATE) or 0)
  end
  return q.resumedAt
end

-- Completes the reply of a BullMQ fetch, and returns whether the fetch took a call. If it did, the last element of the reply
-- becomes the call. Otherwise that element becomes the ms until the next delayed call is due, or 0.
local function fetched(q, reply, limits)
  if type(reply) ~= 'table' or type(reply[1]) ~= 'table' then
    redis.call('ZREM', wake, q.name)
    local nextAt = type(reply) == 'table' and tonumber(reply[4]) or 0
    if nextAt >= math.floor(heldScore / 0x1000) then reply[4] = 0
    elseif nextAt > 0 then reply[4] = math.max(1, nextAt - now) end
    -- This queue does not use the free slot, so another queue of the job may.
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
-- BullMQ's event stream to about 100 entries instead of 10,000: this program only reads the time of the newest one.
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
