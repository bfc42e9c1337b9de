import { VERSIONS } from "../redis/version.ts";

/*
 * Lua around each of BullMQ's scripts, so that BullMQ's change of a queue and what producers are told of it are one step.
 * Three keys of a partition tell them:
 *
 *   wake    queues with calls that may be taken now. Each producer blocks on it, and takes one name out.
 *   due     queues to be looked at again, by the time: a delay, a hold or the period of a rate ends then. Whoever polls moves
 *           those whose time has come to `wake`.
 *   active  queues with calls in hand.
 *
 * A name too many costs one fetch that finds nothing. A name too few would let a call wait for the next look through the
 * registry (poll.ts), so a name leaves `wake` only where a fetch has just found that nothing can be taken. A queue in which calls
 * have waited before is in `wake` or `due` already, or a producer has just taken its name out and tells of it when it fetches: an
 * add to such a queue, and a call taken at another's end, tell nobody.
 *
 * The gate of a job says whether its calls may be taken. It is a hash with paused, held (until, unix ms of Redis), concurrency,
 * max and duration (ms), and holds for all queues of the job together, whatever their origin. BullMQ's own pause, concurrency
 * and rate hold for one queue, and write no marker when they end.
 */

/** Lua that puts a queue into `wake`. Names leave it in the order in which they came, by Redis' clock. */
export const AWAKE = `
local function awake(wake, queue)
  local time = redis.call('TIME')
  redis.call('ZADD', wake, 'NX', time[1] * 1000000 + time[2], queue)
end`;

/**
 * KEYS and ARGV begin with BullMQ's. ARGV ends with: now, mark, retried, prefix, job, queue, the names of the job's other queues,
 * and how many these are. BullMQ too names most of its keys by a prefix; all of them lie in one slot.
 */
const FRAME = `${AWAKE}
local others = tonumber(ARGV[#ARGV])
local tail = #ARGV - others - 6
local now, mark, retried, prefix = tonumber(ARGV[tail]), ARGV[tail + 1], ARGV[tail + 2], ARGV[tail + 3] .. ':'
local job, name = prefix .. 'job:' .. ARGV[tail + 4], ARGV[tail + 5]
local takes = prefix .. 'taken:' .. ARGV[tail + 4]
local wake, due, inHand = prefix .. 'wake', prefix .. 'due', prefix .. 'active'
local wait, active = prefix .. name .. ':wait', prefix .. name .. ':active'

-- 0: open. Above 0: closed for so many ms. -1: closed until somebody opens it. Also answers the gate's fields.
local function gate(leaving)
  local s = redis.call('HMGET', job, 'paused', 'held', 'concurrency', 'max', 'duration')
  if s[1] then return -1, s end
  if s[2] then
    local time = redis.call('TIME')
    local ms = tonumber(s[2]) - time[1] * 1000 - math.floor(time[2] / 1000)
    if ms > 0 then return ms, s end
    redis.call('HDEL', job, 'held')
  end
  if s[3] then
    local hands = redis.call('LLEN', active) - leaving
    for i = 1, others do hands = hands + redis.call('LLEN', prefix .. ARGV[tail + 5 + i] .. ':active') end
    if hands >= tonumber(s[3]) then return -1, s end
  end
  if s[4] and tonumber(redis.call('GET', takes) or 0) >= tonumber(s[4]) then
    local ms = redis.call('PTTL', takes)
    if ms > 0 then return ms, s end
    redis.call('DEL', takes)
  end
  return 0, s
end

local function closed(ms)
  redis.call('ZREM', wake, name)
  if ms > 0 then redis.call('ZADD', due, 'LT', now + ms, name) end
end

-- Tells producers that calls of this queue wait.
local function tellOwn(ms)
  if ms == 0 then awake(wake, name)
  elseif ms > 0 then redis.call('ZADD', due, 'LT', now + ms, name) end
end

-- The job's other queues with calls that wait.
local function waiting()
  local found = {}
  for i = 1, others do
    local other = ARGV[tail + 5 + i]
    if redis.call('EXISTS', prefix .. other .. ':wait') == 1 then found[#found + 1] = other end
  end
  return found
end

-- Tells producers of calls that wait. A place that a job's limits leave is for all its queues, this one last.
local function tell()
  local ms, s = gate(0)
  if s[3] or s[4] then
    for _, other in ipairs(waiting()) do
      if ms == 0 then awake(wake, other)
      elseif ms > 0 then
        redis.call('ZADD', due, 'LT', now + ms, other)
        ms = ms + 1
      end
    end
  end
  if redis.call('EXISTS', wait) == 1 then tellOwn(ms) end
end

-- The record of a call just taken may still hold the state it had outside the queue. Answers the state found and the window, or
-- NEWER if a later release wrote the record.
local function queued(id)
  local record = prefix .. 'call:' .. id
  local known = redis.call('HMGET', record, 'st', 'w', 'v')
  local st = known[1]
  if tonumber(known[3] or 1) > ${VERSIONS.record} then return 'NEWER' end
  if st == 'CLAIMED' or st == 'SETTLED' or st == 'FAILED' then
    redis.call('HSET', record, 'st', 'QUEUED', 'at', now)
    redis.call('PERSIST', record)
  end
  return (st or '') .. ' ' .. (known[2] or '')
end

-- After a fetch by BullMQ. Answers whether it took a call. The reply's last place is the time of the next delayed call; if there
-- is a call, it is what is known of its record instead.
local function fetched(reply, s)
  if type(reply) ~= 'table' or type(reply[1]) ~= 'table' then
    redis.call('ZREM', wake, name)
    if s[3] and redis.call('EXISTS', wait) == 0 then tell() end
    return false
  end
  reply[4] = queued(reply[2])
  if s[4] and redis.call('INCR', takes) == 1 then redis.call('PEXPIRE', takes, s[5]) end
  return true
end

local function left()
  if redis.call('EXISTS', active) == 0 then redis.call('SREM', inHand, name) end
end
`;

type Around = {
  /** How many KEYS BullMQ's script has. */
  keys: number;
  /** Calls `bullmq()`, and returns what it answers. */
  lua: string;
};

const MOVE = `
local reply = bullmq()
if type(reply) == 'number' and reply < 0 then return reply end
tell()
left()
return reply`;

/**
 * A queue with calls is registered, since it leaves the registry only when it is empty. Nobody here reads BullMQ's event stream,
 * which keeps 10,000 entries by default.
 */
const ADD = `
local reply = bullmq()
if redis.call('LLEN', wait) > 1 then return reply end
if redis.call('SADD', prefix .. 'queues', name) == 1 then redis.call('HSET', KEYS[3], 'opts.maxLenEvents', 100) end
tellOwn((gate(0)))
return reply`;

const FETCH = `
local ms, s = gate(0)
if ms ~= 0 then
  closed(ms)
  return {0, 0, math.max(ms, 0), 0}
end
local reply = bullmq()
if fetched(reply, s) then
  redis.call('SADD', inHand, name)
  tell()
end
return reply`;

/**
 * With a mark, the runner has the call: its record says so, also if another worker has taken the call meanwhile, and the window
 * begins again for as many ms as the mark says. Only a call that was taken before may have failed attempts.
 *
 * ARGV[6] is whether BullMQ fetches the next call in the same step; it does not know the gate. A queue of a job with limits leaves
 * its place to the job's other queues if calls wait there.
 */
const FINISH = `
local ms, s = 0, nil
local fetches = ARGV[6] == '1'
if fetches then
  ms, s = gate(1)
  if ms == 0 and (s[3] or s[4]) and #waiting() > 0 then fetches = false end
  if ms ~= 0 or not fetches then ARGV[6] = '0' end
end
local reply = bullmq()
if mark ~= '' then
  local record = prefix .. 'call:' .. ARGV[1]
  redis.call('HSET', record, 'st', 'INJECTED', 'at', now, 'v', ${VERSIONS.record})
  redis.call('PEXPIRE', record, mark)
  if retried ~= '' then
    redis.call('PEXPIRE', prefix .. 'attempts:' .. ARGV[1], mark)
    redis.call('ZREM', prefix .. 'since:' .. name, ARGV[1])
  end
end
if type(reply) == 'number' and reply < 0 then return reply end
if not fetches then tell()
elseif ms ~= 0 then closed(ms)
elseif fetched(reply, s) then
  if s[3] or s[4] then tell() end
  return reply
end
left()
return reply`;

/** ARGV[2] is now and ARGV[5] the delay, in ms. */
const DELAY = `
local reply = bullmq()
if type(reply) == 'number' and reply < 0 then return reply end
redis.call('ZADD', due, 'LT', tonumber(ARGV[2]) + tonumber(ARGV[5]), name)
tell()
left()
return reply`;

/** BullMQ's scripts that change what producers must be told of, by BullMQ's names. */
export const AROUND: Readonly<Record<string, Around>> = {
  addStandardJob: { keys: 9, lua: ADD },
  moveToActive: { keys: 11, lua: FETCH },
  moveToFinished: { keys: 14, lua: FINISH },
  moveToDelayed: { keys: 11, lua: DELAY },
  moveJobFromActiveToWait: { keys: 9, lua: MOVE },
  moveStalledJobsToWait: { keys: 9, lua: MOVE },
  reprocessJob: { keys: 9, lua: MOVE },
};

export function surround(lua: string, bullmq: string): string {
  return `${FRAME}
local function bullmq()
${bullmq}
end
${lua}`;
}
