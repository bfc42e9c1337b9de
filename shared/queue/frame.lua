-- Lua around each of BullMQ's scripts, so that BullMQ's change of a queue and what producers are told of it are one step.
-- Three keys of a partition tell them:
--
--   wake    queues with calls that may be taken now. Each producer blocks on it, and takes names out.
--   due     queues to be looked at again, by the time: a delay, a throttle or the period of a rate ends then. Whoever polls moves
--           those whose time has come to `wake`.
--   active  queues with calls in hand.
--
-- A name too many costs one fetch that finds nothing. A name too few lets a call wait for the next look through the registry
-- (poll.ts), so a name leaves `wake` only where a fetch has just found that nothing can be taken. An add tells producers only if
-- no call waited in the queue before: else the queue is in `wake` or `due` already, or a producer has just taken its name out and
-- tells of it when it fetches. A take at another call's end tells nobody, for the same reason.
--
-- The gate of a job says whether its calls may be taken. It is a hash with paused, throttled (until, unix ms of Redis), concurrency,
-- max and duration (ms), and holds for all queues of the job together, whatever their origin. BullMQ's own pause, concurrency
-- and rate hold for one queue, and write no marker when they end.
--
-- In a deployment of several partitions the limits of a job hold over all of them. Its gate then has the field permit instead: a call is taken
-- only by a worker that has a permit for it (services/producer/consumer/permits.ts).
--
-- Callbacks go through the gate of their receiver instead, `callback/<receiver>`, which holds for its queues of all jobs. What it does
-- not say itself the gate `callback` says, for each receiver.
--
-- Defines functions for one queue, `q`: behind the gate `gateName`, mostly that of a job, under `prefix`, which ends with a
-- colon, at `now`, by Redis' clock. BullMQ's scripts get the same time as `timestamp`, so that no process's clock decides when a call is
-- due. Like BullMQ, it names most of its keys by a prefix; all of them lie in one slot.
--@include "../redis/now.lua"
local timestamp = string.format('%.0f', now)
--@include "./delays.lua"
--@include "./held.lua"
--@include "./awake.lua"
--@include "../call/results/tell-change.lua"
local wake, due, inHand = prefix .. 'wake', prefix .. 'due', prefix .. 'active'

-- Packs maps that differ in the value of one key: the others are packed once. MessagePack's byte before a small map is its size.
local function packer(key, others)
  local packed = cmsgpack.pack(others)
  local head, rest = string.char(string.byte(packed) + 1) .. cmsgpack.pack(key), string.sub(packed, 2)
  return function(value) return head .. cmsgpack.pack(value) .. rest end
end

local function queueOf(gateName, name)
  local jobs = prefix .. name .. ':'
  return {gate = gateName, name = name, jobs = jobs, wait = jobs .. 'wait', active = jobs .. 'active'}
end

-- The receiver whose callbacks the queue has, or false.
local function receiverOf(q)
  if q.receiver == nil then q.receiver = string.match(q.gate, '^' .. CALLBACKS_GATE .. '/(.*)') or false end
  return q.receiver
end

-- The names of the other queues behind the gate.
local function others(q)
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

-- For how many ms the gate of the queue's job is closed, or OPEN, or UNTIL_OPENED by somebody; and the job's limits. "leaving" is how
-- many calls of this queue leave in this step. A job without a gate has none as long as this script runs.
local function gate(q, leaving)
  if q.isFree then return OPEN, FREE end
  local job = prefix .. 'job:' .. q.gate
  local ofAll = receiverOf(q) and redis.call('HMGET', prefix .. 'job:' .. CALLBACKS_GATE, 'paused', 'concurrency')
  q.isFree = not ofAll and redis.call('EXISTS', job) == 0
  if q.isFree then return OPEN, FREE end
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
    local hands = redis.call('LLEN', q.active) - leaving
    for _, other in ipairs(others(q)) do hands = hands + redis.call('LLEN', prefix .. other .. ':active') end
    if hands >= tonumber(concurrency) then return UNTIL_OPENED, limits end
  end
  local taken = prefix .. 'taken:' .. q.gate
  if max and tonumber(redis.call('GET', taken) or 0) >= tonumber(max) then
    local ms = redis.call('PTTL', taken)
    if ms > 0 then return ms, limits end
    redis.call('DEL', taken)
  end
  return OPEN, limits
end

-- A queue that cannot be taken from is due when the gate opens.
local function untilOpen(name, ms)
  if ms > 0 then redis.call('ZADD', due, 'LT', now + ms, name) end
end

local function closed(q, ms)
  redis.call('ZREM', wake, q.name)
  untilOpen(q.name, ms)
end

-- Tells producers that calls of a queue wait.
local function tellOf(name, ms)
  if ms == OPEN then awake(wake, name) else untilOpen(name, ms) end
end

-- Whether a queue has calls that wait, or whose delay has ended.
local function waits(name)
  local jobs = prefix .. name .. ':'
  return redis.call('EXISTS', jobs .. 'wait') == 1 or isDue(jobs .. 'delayed')
end

-- The job's other queues with calls that wait.
local function waiting(q)
  local found = {}
  for _, other in ipairs(others(q)) do
    if waits(other) then found[#found + 1] = other end
  end
  return found
end

-- Tells producers of calls that wait. A place that a job's limits leave is for all its queues, this one last.
local function tell(q)
  local ms, limits = gate(q, 0)
  if limits.any then
    for _, other in ipairs(waiting(q)) do
      tellOf(other, ms)
      if ms > 0 then ms = ms + 1 end
    end
  end
  if waits(q.name) then tellOf(q.name, ms) end
end

-- The call that BullMQ takes next, its size as stored, and how many processes have ended with it in hand.
local function head(q)
  local id = redis.call('LINDEX', q.wait, '-1')
    or redis.call('ZRANGEBYSCORE', q.jobs .. 'delayed', '-inf', past, 'LIMIT', 0, 1)[1]
  if not id then return nil, 0, 0 end
  local job = q.jobs .. id
  return id, redis.call('HSTRLEN', job, 'data'), tonumber(redis.call('HGET', job, 'stc') or 0)
end

-- The record of a call just taken may still hold the state it had outside the queue. Nobody knows how far the one came from which the call
-- was taken back. Answers the state found and the window, or UNREADABLE if a key of another type is there.
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

-- How many attempts a call had before, which was taken so many times; when it was last replayed, or 0; and its last failure.
local function attemptsOf(id, takes)
  local log = prefix .. 'attempts:' .. id
  local line = takes > 1 and redis.call('LINDEX', log, -1)
  if not line then return 0, 0, '' end
  local newest = cjson.decode(line)
  return newest.n or 0, newest.ready or 0, lastFailure(log)
end

-- When the last pause of the queue's job ended, or 0. Read once in a script.
local function resumedAt(q)
  if not q.resumedAt then
    local function of(name) return tonumber(redis.call('HGET', prefix .. 'resumed', name) or 0) end
    q.resumedAt = math.max(of(q.gate), receiverOf(q) and of(CALLBACKS_GATE) or 0)
  end
  return q.resumedAt
end

-- After a fetch by BullMQ. Answers whether it took a call. What is to be known of it comes in the reply's last place, where BullMQ
-- puts the time of the next delayed call if it took none; in its place comes for how many ms that call is still delayed.
local function fetched(q, reply, limits)
  if type(reply) ~= 'table' or type(reply[1]) ~= 'table' then
    redis.call('ZREM', wake, q.name)
    local nextAt = type(reply) == 'table' and tonumber(reply[4]) or 0
    if nextAt >= math.floor(heldScore / 0x1000) then reply[4] = 0
    elseif nextAt > 0 then reply[4] = math.max(1, nextAt - now) end
    -- The place that this queue does not use is the job's.
    if limits.concurrency and redis.call('EXISTS', q.wait) == 0 then tell(q) end
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

-- A queue is in the set of those with calls in hand only while it has some.
local function updateInHand(q)
  if redis.call('EXISTS', q.active) == 0 then redis.call('SREM', inHand, q.name) end
end

-- A queue with calls is registered, since it leaves the registry only when it is empty.
local function register(q)
  if redis.call('SADD', prefix .. 'queues', q.name) == 0 then return end
  redis.call('HSET', q.jobs .. 'meta', 'opts.maxLenEvents', 100)
  if receiverOf(q) then redis.call('SADD', prefix .. 'receiver:' .. receiverOf(q), q.name) end
end

-- A call was added, and so many wait now. Producers are told of a queue in which none waited.
local function added(q, waits)
  if waits > 1 then return end
  register(q)
  tellOf(q.name, (gate(q, 0)))
end
