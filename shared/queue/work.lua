-- Runs steps of a worker: each ends a call, takes the next one, or does both. Answers for each step what BullMQ's script does, or ERROR and
-- the error. A step that fails leaves the others alone.
--
-- `id` is the call that leaves, if one does. With `keepMs`, the runner has it: its record says so for as many ms, also if another worker
-- has taken the call meanwhile, or has ended it as failed. Of a payment whose refund is exported it only notes it, and answers AFTER_REFUND.
-- `result` is empty, or what is known of the call's result, or the result to store: that of a call whose job keeps it is stored in the same
-- step (shared/call/results/keep-result.lua). Only a call that was taken before (`retried`), or by another worker since, may have failed attempts.
--
-- `callback` is the call's, as it was prepared (callbacks.ts), if it has one. It is queued in the step that makes the record say INJECTED; if
-- the result is still to be delivered, it stays with the record for the step that stores the delivery (shared/call-search/deliver-result.ts).
--
-- `kept` is empty, or says how the whole call is kept (shared/call/kept/keep.lua): it moves there in the step that makes the record say INJECTED.
--
-- `takes` is whether the next call is taken. The worker has room for `room` bytes of it as stored (empty: for any). A larger call is not taken,
-- and the answer says how large it is; nor one that has ended processes, unless the worker has nothing else in hand (`takes` names "alone"); nor one
-- of a job whose calls need permits, unless the worker has one (`takes` names "permitted"). A call that must fail comes without its data, which
-- may be what ends processes.
--
-- BullMQ takes the next call in the step that ends one, and does not know the gate. A queue of a job with limits leaves its place to the job's
-- other queues if calls wait there. What is not an ordinary call that fits is left to a step that only takes, and one that would make the
-- answer long to a later batch.
--@include "../redis/even-if-full.lua"
local prefix, worker, lockMs = ARGV.prefix .. ':', ARGV.worker, ARGV.lockMs
local resultMs, resultsBytesMax = tonumber(ARGV.resultMs), tonumber(ARGV.resultsBytesMax)
--@include "./batch.lua"
--@include "./bullmqs-work.lua"
local bullmqsFinish, bullmqsTake, toFinish, toTake

local function finish(q, own, id, token, takes)
  bullmqsFinish = bullmqsFinish or newBullmqsFinish()
  toFinish = toFinish or packer('token', {
    name = worker, keepJobs = {count = 0}, lockDuration = lockMs, maxMetricsSize = ''
  })
  q.keys[OWN_KEY] = own
  local next = takes and '1' or '0'
  return bullmqsFinish(q.keys, {id, timestamp, 'returnvalue', 'null', 'completed', next, q.jobs, toFinish(token), ''})
end

-- What results need is made for the first call that has one: most batches have none.
local results
local function newResults()
--@include "../call/results/keep-result.lua"
  return {move = moveResult, outlasts = outlasts}
end

-- The same of callbacks.
local callbacks
local function newCallbacks()
--@include "./callbacks.lua"
  return function(record, prepared, known, keepMs)
    if known == 'awaited' or known == 'failed' then
      redis.call('HSET', record, 'cb', prepared)
      keepMs = string.format('%.0f', math.max(tonumber(keepMs), AWAITED_KEEP_MS))
    end
    if known ~= 'awaited' then
      local ending = known == 'failed' and 'call.failed' or 'call.completed'
      queueCallback(callbackOf(cjson.decode(prepared), ending))
    end
    return keepMs
  end
end

-- Made for the first delivered webhook that is kept.
local keepsDelivered
local function newKeep()
--@include "../call/kept/keep.lua"
  return keepDelivered
end

-- The runner has the call. Answers whether it is too late to say so. Of a call that was forgotten meanwhile, which nobody can have in
-- hand, nothing is kept.
local function injected(q, id, keepMs, retried, result, isLost, prepared, kept, data)
  local record = prefix .. 'call:' .. id
  local st, known, code
  if result == '' then st = redis.call('HGET', record, 'st')
  else st, known, code = unpack(redis.call('HMGET', record, 'st', 'rs', 'fc')) end
  if st == 'REFUND_PENDING' or st == 'REFUNDED' then
    redis.call('HSETNX', record, 'late', timestamp)
    if result ~= '' then redis.call('HSETNX', record, 'rs', 'gone') end
    return true
  end
  if isLost and redis.call('HEXISTS', record, 'fg') == 1 then
    redis.call('HSET', record, 'st', 'INJECTED', 'at', timestamp)
    hasChanged(id)
    return false
  end
  if result == '' then redis.call('HSET', record, 'st', 'INJECTED', 'at', timestamp)
  else
    results = results or newResults()
    local isKnown = result == 'awaited' or result == 'gone'
    known = results.move(id, known, isKnown and result or 'kept', isKnown and '' or result)
    redis.call('HSET', record, 'st', 'INJECTED', 'at', timestamp, 'rs', known, 'jb', q.gate)
    if code then redis.call('HDEL', record, 'fc', 'fp') end
    keepMs = results.outlasts(keepMs)
  end
  if prepared ~= '' and st ~= 'INJECTED' then
    callbacks = callbacks or newCallbacks()
    keepMs = callbacks(record, prepared, known, keepMs)
  end
  if data ~= '' then
    keepsDelivered = keepsDelivered or newKeep()
    keepsDelivered(id, kept, data)
  end
  hasChanged(id)
  redis.call('PEXPIRE', record, keepMs)
  if retried then
    redis.call('PEXPIRE', prefix .. 'attempts:' .. id, keepMs)
    redis.call('ZREM', prefix .. 'since:' .. q.name, id)
  end
  return false
end

-- Whether a call of so many bytes would make the answer long.
local answered = 0
local function isMuch(bytes)
  return answered > 0 and answered + bytes > BATCH_BYTES_MAX
end

local REFETCH = {0, 0, 0, 'REFETCH'}

local function leave(q, id, token, keepMs, retried, takes, room, result, prepared, kept)
  local ms, limits, refetch = OPEN, nil, false
  if takes then
    ms, limits = gate(q, 1)
    if ms == OPEN then
      takes = not (limits.any and #waiting(q) > 0)
      if takes then
        local _, bytes, crashes = head(q)
        refetch = limits.permit or bytes > room or isMuch(bytes) or crashes >= CRASHES.untilAlone
        if not refetch then answered = answered + bytes end
      end
    end
  end
  local own = q.jobs .. id
  local bytes = redis.call('HSTRLEN', own, 'data')
  local data = kept ~= '' and redis.call('HGET', own, 'data') or ''
  local reply = finish(q, own, id, token, takes and ms == OPEN and not refetch)
  local isLost = type(reply) == 'number' and reply < 0
  local isLate = keepMs ~= '' and injected(q, id, keepMs, retried or isLost, result, isLost, prepared, kept, data)
  if isLost then
    if isLate then return AFTER_REFUND end
    if keepMs ~= '' then dropFailed(q.name, id) end
    return reply
  end
  q.bytes = q.bytes - bytes
  if not takes then q.tells = true
  elseif ms ~= OPEN then closed(q, ms)
  elseif refetch then reply = REFETCH
  elseif fetched(q, reply, limits) then
    if limits.any then q.tells = true end
    return reply
  end
  updateInHand(q)
  return reply
end

local function names(takes, how) return string.find(takes, how, 1, true) end

-- The answer if the next call is not to be taken in this way now.
local function refused(id, bytes, crashes, room, takes)
  if crashes >= CRASHES.untilAlone and not names(takes, 'alone') then return {0, id, 0, 'ALONE'} end
  if room and bytes > room then return {0, bytes, 0, 'LARGE'} end
end

local function take(q, token, room, takes)
  local ms, limits = gate(q, 0)
  if ms ~= OPEN then
    closed(q, ms)
    return {0, 0, math.max(ms, 0), 0}
  end
  local id, bytes, crashes = head(q)
  -- Also of an empty queue: a place may be reserved for it, which a worker that knows no permits would not pass on.
  if limits.permit and not names(takes, 'permitted') then return {0, 0, 0, 'PERMIT'} end
  local fails = crashes >= CRASHES.untilFailed
  local answer = id and not fails and refused(id, bytes, crashes, room, takes)
  if answer then return answer end
  if isMuch(bytes) then return REFETCH end
  bullmqsTake = bullmqsTake or newBullmqsTake()
  toTake = toTake or packer('token', {name = worker, lockDuration = lockMs})
  local reply = bullmqsTake(keysToTake(q), {q.jobs, timestamp, toTake(token)})
  if fetched(q, reply, limits) then
    answered = answered + bytes
    if fails then reply[4][1] = '' end
    -- The places that a job's limits leave are nobody's to count on.
    reply[1] = limits.any and 0 or redis.call('LLEN', q.wait)
    redis.call('SADD', inHand, q.name)
    q.tells = true
  end
  return reply
end

-- Asks once for the jobs of all steps whether one of them has a gate, and when their last pauses ended.
local isFree, resumed = false, {}
local function askOfJobs(first, width)
  local names, gates, seen = {}, {}, {}
  for i = first, #ARGV, width do
    local gateName = ARGV[i]
    if not seen[gateName] then
      seen[gateName] = true
      names[#names + 1], gates[#gates + 1] = gateName, prefix .. 'job:' .. gateName
    end
  end
  isFree = redis.call('EXISTS', unpack(gates)) == 0
  -- A value that cannot be read fails the steps that need it.
  local found = redis.pcall('HMGET', prefix .. 'resumed', unpack(names))
  for i, at in ipairs(found) do resumed[names[i]] = tonumber(at or 0) end
end

local function queueOfStep(gateName, name)
  local q = opened(gateName, name)
  if q.keys then return q end
  q.keys = keysToFinish(q)
  if not receiverOf(q) then q.isFree, q.resumedAt = isFree, resumed[gateName] end
  return q
end

local function step(gateName, name, token, id, keepMs, retried, takes, room, result, prepared, kept)
  local q = queueOfStep(gateName, name)
  if id == '' then return take(q, token, tonumber(room), takes) end
  return leave(q, id, token, keepMs, retried == '1', takes == '1', tonumber(room), result, prepared, kept)
end
--@include "./each-alone.lua"
askOfJobs(FIRST.steps, WIDTH.steps)
return eachAlone(step, FIRST.steps, WIDTH.steps)
