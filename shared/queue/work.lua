-- Runs steps of a worker: each ends a call, takes the next call, or does both. Returns for each step the reply of BullMQ's
-- script, or ERROR and the error. An error in one step does not affect the others.
--
-- `id` is the call that ends, if any. `keepMs` is set if the runner accepted the call. The record then becomes INJECTED and
-- is kept for that many ms, even if another worker has taken the call in the meantime or has ended it as failed. If the
-- refund of a paid call was already exported, the step only stores the time of the 2xx, and answers AFTER_REFUND.
--
-- `result` is empty, or the state of the call's result, or the result itself. It is stored in the same step
-- (shared/call/results/keep-result.lua). `retried` is set if the call was taken before. Only such a call, or one that another
-- worker has taken since, can have a log of failed attempts, which must then expire.
--
-- `callback` is the call's prepared callback (callbacks.ts), if it has one. It is queued in the step that sets the record to
-- INJECTED. If the runner will deliver the result later, the record keeps the callback for the step that stores the delivery
-- (shared/call-search/deliver-result.ts).
--
-- `kept` is empty, or has the settings for keeping the whole call (shared/call/kept/keep.lua). The call is then moved
-- to the kept calls in the step that sets the record to INJECTED.
--
-- `takes` is set if the next call is taken. `room` is the maximum stored size of that call in bytes (empty: no limit). A
-- larger call is refused, with its size in the answer. A call that was in flight when processes died may have killed them. It
-- is refused unless `takes` contains "alone", which says that the worker has no other call. A call that needs a permit is
-- refused unless `takes` contains "permitted". If so many processes died with a call that it must fail, the answer leaves out
-- the call's data, because that data may kill the worker too.
--
-- BullMQ's script that ends a call can also take the next call of the same queue, and does not know gates. So if the job has
-- limits, and calls wait in its other queues, the step takes no call. The free slot then goes to one of those queues. A step
-- that ends a call does not take a next call that is too large, needs a permit or was in flight when processes died. For such
-- a call, the step answers REFETCH, and the worker sends a step that only takes a call. The answer is also REFETCH if the
-- next call would make the answer of the whole batch too long.
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

-- The functions for results are created only if a call has a result, because most batches have none.
local results
local function newResults()
--@include "../call/results/keep-result.lua"
  return {move = moveResult, recordKeepMs = recordKeepMs}
end

-- The functions for callbacks are created only if a call has a callback.
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

-- The function for kept calls is created only if a delivered webhook must be kept.
local keepsDelivered
local function newKeep()
--@include "../call/kept/keep.lua"
  return keepDelivered
end

-- Records that the runner accepted the call. Returns true if the call's refund was already exported. If an operator forgot
-- the call in the meantime, stores no data of the call. This is checked only if the worker has lost the call (`isLost`),
-- because no operator can forget a call before that.
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
    noteChange(id)
    return false
  end
  if result == '' then redis.call('HSET', record, 'st', 'INJECTED', 'at', timestamp)
  else
    results = results or newResults()
    local isKnown = result == 'awaited' or result == 'gone'
    known = results.move(id, known, isKnown and result or 'kept', isKnown and '' or result)
    redis.call('HSET', record, 'st', 'INJECTED', 'at', timestamp, 'rs', known, 'jb', q.gate)
    if code then redis.call('HDEL', record, 'fc', 'fp') end
    keepMs = results.recordKeepMs(keepMs)
  end
  if prepared ~= '' and st ~= 'INJECTED' then
    callbacks = callbacks or newCallbacks()
    keepMs = callbacks(record, prepared, known, keepMs)
  end
  if data ~= '' then
    keepsDelivered = keepsDelivered or newKeep()
    keepsDelivered(id, kept, data)
  end
  noteChange(id)
  redis.call('PEXPIRE', record, keepMs)
  if retried then
    redis.call('PEXPIRE', prefix .. 'attempts:' .. id, keepMs)
    redis.call('ZREM', prefix .. 'since:' .. q.name, id)
  end
  return false
end

-- Stored size of all calls that the steps of this batch have put into the answer so far.
local answered = 0
-- Returns whether another call of `bytes` bytes would make the answer too long.
local function isTooMuch(bytes)
  return answered > 0 and answered + bytes > BATCH_BYTES_MAX
end

local REFETCH = {0, 0, 0, 'REFETCH'}

local function leave(q, id, token, keepMs, retried, takes, room, result, prepared, kept)
  local ms, limits, refetch = OPEN, nil, false
  if takes then
    ms, limits = gate(q, 1)
    if ms == OPEN then
      takes = not (limits.any and #waitingOthers(q) > 0)
      if takes then
        local _, bytes, crashes = head(q)
        refetch = limits.permit or bytes > room or isTooMuch(bytes) or crashes >= CRASHES.untilAlone
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
  if not takes then q.wakes = true
  elseif ms ~= OPEN then closed(q, ms)
  elseif refetch then reply = REFETCH
  elseif fetched(q, reply, limits) then
    if limits.any then q.wakes = true end
    return reply
  end
  updateInFlight(q)
  return reply
end

local function names(takes, how) return string.find(takes, how, 1, true) end

-- Returns the reply of a step that must not take the next call, because that call must be taken alone or is too large.
-- Returns nil if the step may take the call.
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
  -- A take needs a permit even if the queue is empty, because partition 0 may have reserved one for this queue. The worker
  -- must acquire that permit first. When it then finds no call, it releases the permit, and the next waiting queue gets it.
  if limits.permit and not names(takes, 'permitted') then return {0, 0, 0, 'PERMIT'} end
  local fails = crashes >= CRASHES.untilFailed
  local answer = id and not fails and refused(id, bytes, crashes, room, takes)
  if answer then return answer end
  if isTooMuch(bytes) then return REFETCH end
  bullmqsTake = bullmqsTake or newBullmqsTake()
  toTake = toTake or packer('token', {name = worker, lockDuration = lockMs})
  local reply = bullmqsTake(keysToTake(q), {q.jobs, timestamp, toTake(token)})
  if fetched(q, reply, limits) then
    answered = answered + bytes
    if fails then reply[4][1] = '' end
    -- The number of waiting calls lets the worker begin more fetches at once. If the job has limits, it is 0, because they
    -- may refuse these fetches.
    reply[1] = limits.any and 0 or redis.call('LLEN', q.wait)
    redis.call('SADD', inFlight, q.name)
    q.wakes = true
  end
  return reply
end

-- Reads two facts once for the jobs of all steps: whether any job has a gate, and when the last pause of each job ended.
local hasNoGate, resumed = false, {}
local function readJobs(first, width)
  local names, gates, seen = {}, {}, {}
  for i = first, #ARGV, width do
    local gateName = ARGV[i]
    if not seen[gateName] then
      seen[gateName] = true
      names[#names + 1], gates[#gates + 1] = gateName, prefix .. 'job:' .. gateName
    end
  end
  hasNoGate = redis.call('EXISTS', unpack(gates)) == 0
  -- If a stored time cannot be read, only the steps that need it fail.
  local found = redis.pcall('HMGET', prefix .. 'resumed', unpack(names))
  for i, at in ipairs(found) do resumed[names[i]] = tonumber(at or 0) end
end

local function queueOfStep(gateName, name)
  local q = opened(gateName, name)
  if q.keys then return q end
  q.keys = keysToFinish(q)
  if not receiverOf(q) then q.hasNoGate, q.resumedAt = hasNoGate, resumed[gateName] end
  return q
end

local function step(gateName, name, token, id, keepMs, retried, takes, room, result, prepared, kept)
  local q = queueOfStep(gateName, name)
  if id == '' then return take(q, token, tonumber(room), takes) end
  return leave(q, id, token, keepMs, retried == '1', takes == '1', tonumber(room), result, prepared, kept)
end
--@include "./each-alone.lua"
readJobs(FIRST.steps, WIDTH.steps)
return eachAlone(step, FIRST.steps, WIDTH.steps)
