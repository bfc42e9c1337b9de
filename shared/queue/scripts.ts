import { EVEN_IF_FULL } from "../redis/script.ts";
import { VERSIONS } from "../redis/version.ts";
import { type Definition, scriptsOfBullmq } from "./bullmq-scripts.ts";
import { CRASHES } from "./protocol.ts";

/*
 * Lua around each of BullMQ's scripts, so that BullMQ's change of a queue and what producers are told of it are one step.
 * Three keys of a partition tell them:
 *
 *   wake    queues with calls that may be taken now. Each producer blocks on it, and takes one name out.
 *   due     queues to be looked at again, by the time: a delay, a throttle or the period of a rate ends then. Whoever polls moves
 *           those whose time has come to `wake`.
 *   active  queues with calls in hand.
 *
 * A name too many costs one fetch that finds nothing. A name too few lets a call wait for the next look through the registry
 * (poll.ts), so a name leaves `wake` only where a fetch has just found that nothing can be taken. An add tells producers only if
 * no call waited in the queue before: else the queue is in `wake` or `due` already, or a producer has just taken its name out and
 * tells of it when it fetches. A take at another call's end tells nobody, for the same reason.
 *
 * The gate of a job says whether its calls may be taken. It is a hash with paused, throttled (until, unix ms of Redis), concurrency,
 * max and duration (ms), and holds for all queues of the job together, whatever their origin. BullMQ's own pause, concurrency
 * and rate hold for one queue, and write no marker when they end.
 */

/** A worker that is not the one that takes calls alone looks again after so long. */
const ALONE_AGAIN_MS = 1000;

/**
 * Lua that tells of delayed calls whose time has come by `now`. BullMQ's score of one holds its time above 12 bits of a counter, and
 * BullMQ moves those that are due only when somebody fetches.
 */
export const DELAYS = `
local past = string.format('%.0f', (now + 1) * 0x1000 - 1)
local function isDue(delayed) return redis.call('ZCOUNT', delayed, '-inf', past) > 0 end`;

/** Lua that puts a queue into `wake`. Names leave it in the order in which they came, by Redis' clock. */
export const AWAKE = `
local function awake(wake, queue)
  local time = redis.call('TIME')
  redis.call('ZADD', wake, 'NX', time[1] * 1000000 + time[2], queue)
end`;

/**
 * KEYS and ARGV begin with BullMQ's. ARGV ends with: now, keepMs, retried, room, alone, worker, lockMs, prefix, job, queue, the names
 * of the job's other queues, and how many these are. BullMQ too names most of its keys by a prefix; all of them lie in one slot.
 */
const FRAME = `${AWAKE}
local count = tonumber(ARGV[#ARGV])
local tail = #ARGV - count - 10
local now, keepMs, retried = tonumber(ARGV[tail]), ARGV[tail + 1], ARGV[tail + 2]
local room, alone, worker, lockMs = tonumber(ARGV[tail + 3]), ARGV[tail + 4] ~= '', ARGV[tail + 5], ARGV[tail + 6]
local prefix = ARGV[tail + 7] .. ':'
local job, name = prefix .. 'job:' .. ARGV[tail + 8], ARGV[tail + 9]
local others = {unpack(ARGV, tail + 10, tail + 9 + count)}
local taken = prefix .. 'taken:' .. ARGV[tail + 8]
local jobs = prefix .. name .. ':'
${DELAYS}
local wake, due, inHand = prefix .. 'wake', prefix .. 'due', prefix .. 'active'
local wait, active = prefix .. name .. ':wait', prefix .. name .. ':active'

local OPEN, UNTIL_OPENED = 0, -1

-- For how many ms the job's gate is closed, or OPEN, or UNTIL_OPENED by somebody; and the job's limits. "leaving" is how many calls
-- of this queue leave in this step.
local function gate(leaving)
  local paused, throttled, concurrency, max, duration =
    unpack(redis.call('HMGET', job, 'paused', 'throttled', 'concurrency', 'max', 'duration'))
  local limits = {any = concurrency or max, concurrency = concurrency, max = max, duration = duration}
  if paused then return UNTIL_OPENED, limits end
  if throttled then
    local time = redis.call('TIME')
    local ms = tonumber(throttled) - time[1] * 1000 - math.floor(time[2] / 1000)
    if ms > 0 then return ms, limits end
    redis.call('HDEL', job, 'throttled')
  end
  if concurrency then
    local hands = redis.call('LLEN', active) - leaving
    for _, other in ipairs(others) do hands = hands + redis.call('LLEN', prefix .. other .. ':active') end
    if hands >= tonumber(concurrency) then return UNTIL_OPENED, limits end
  end
  if max and tonumber(redis.call('GET', taken) or 0) >= tonumber(max) then
    local ms = redis.call('PTTL', taken)
    if ms > 0 then return ms, limits end
    redis.call('DEL', taken)
  end
  return OPEN, limits
end

-- A queue that cannot be taken from is due when the gate opens.
local function untilOpen(queue, ms)
  if ms > 0 then redis.call('ZADD', due, 'LT', now + ms, queue) end
end

local function closed(ms)
  redis.call('ZREM', wake, name)
  untilOpen(name, ms)
end

-- Tells producers that calls of a queue wait.
local function tellOf(queue, ms)
  if ms == OPEN then awake(wake, queue) else untilOpen(queue, ms) end
end

-- Whether a queue has calls that wait, or whose delay has ended.
local function waits(queue)
  local q = prefix .. queue
  return redis.call('EXISTS', q .. ':wait') == 1 or isDue(q .. ':delayed')
end

-- The job's other queues with calls that wait.
local function waiting()
  local found = {}
  for _, other in ipairs(others) do
    if waits(other) then found[#found + 1] = other end
  end
  return found
end

-- Tells producers of calls that wait. A place that a job's limits leave is for all its queues, this one last.
local function tell()
  local ms, limits = gate(0)
  if limits.any then
    for _, other in ipairs(waiting()) do
      tellOf(other, ms)
      if ms > 0 then ms = ms + 1 end
    end
  end
  if waits(name) then tellOf(name, ms) end
end

-- The call that BullMQ takes next, its size as stored, and how many processes have ended with it in hand.
local function head()
  local id = redis.call('LINDEX', wait, -1)
    or redis.call('ZRANGEBYSCORE', jobs .. 'delayed', '-inf', past, 'LIMIT', 0, 1)[1]
  if not id then return nil, 0, 0 end
  return id, redis.call('HSTRLEN', jobs .. id, 'data'), tonumber(redis.call('HGET', jobs .. id, 'stc') or 0)
end

-- Whether this worker is the one that takes calls alone, for as long as a lock lasts. The others go on meanwhile.
local function isTheOne()
  local by = redis.call('GET', prefix .. 'alone')
  if by and by ~= worker then return false end
  redis.call('SET', prefix .. 'alone', worker, 'PX', lockMs)
  return true
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
local function fetched(reply, limits)
  if type(reply) ~= 'table' or type(reply[1]) ~= 'table' then
    redis.call('ZREM', wake, name)
    -- The place that this queue does not use is the job's.
    if limits.concurrency and redis.call('EXISTS', wait) == 0 then tell() end
    return false
  end
  reply[4] = queued(reply[2])
  if limits.max and redis.call('INCR', taken) == 1 then redis.call('PEXPIRE', taken, limits.duration) end
  return true
end

local function left()
  if redis.call('EXISTS', active) == 0 then redis.call('SREM', inHand, name) end
end
`;

/** A script under BullMQ's name of it. `keys` is how many KEYS BullMQ's has. */
type NamedScript = { command: string; keys: number; lua: string };

/** Calls in hand wait again. */
const MOVE = `
local reply = bullmq()
if type(reply) == 'number' and reply < 0 then return reply end
tell()
left()
return reply`;

/** ARGV[1] is the id. A call that has ended processes is taken alone when it is replayed. */
const REPLAY = `
local reply = bullmq()
if type(reply) == 'number' and reply < 0 then return reply end
if tonumber(redis.call('HGET', jobs .. ARGV[1], 'stc') or 0) > ${CRASHES.untilAlone} then
  redis.call('HSET', jobs .. ARGV[1], 'stc', ${CRASHES.untilAlone})
end
tell()
return reply`;

/**
 * ARGV[2] is the call as stored; BullMQ leaves the queue alone if it has the call already.
 *
 * A queue with calls is registered, since it leaves the registry only when it is empty. Nobody here reads BullMQ's event stream,
 * which keeps 10,000 entries by default.
 */
const ADD = `
local before = redis.call('LLEN', wait)
local reply = bullmq()
local waiting = redis.call('LLEN', wait)
if waiting > before then redis.call('HINCRBY', prefix .. 'bytes', name, #ARGV[2]) end
if waiting > 1 then return reply end
if redis.call('SADD', prefix .. 'queues', name) == 1 then redis.call('HSET', KEYS[3], 'opts.maxLenEvents', 100) end
tellOf(name, (gate(0)))
return reply`;

/**
 * The worker has room for so many bytes of a call as stored (none said: for any). A larger call is not taken, and the answer says
 * how large it is; nor one that has ended processes, unless the worker has nothing else in hand and no other worker takes such a call.
 * One that must fail comes without its data, which may be what ends processes.
 */
const FETCH = `
local ms, limits = gate(0)
if ms ~= OPEN then
  closed(ms)
  return {0, 0, math.max(ms, 0), 0}
end
local id, bytes, crashes = head()
local fails = crashes >= ${CRASHES.untilFailed}
if id and not fails then
  if crashes >= ${CRASHES.untilAlone} then
    if not isTheOne() then
      closed(${ALONE_AGAIN_MS})
      return {0, 0, ${ALONE_AGAIN_MS}, 0}
    end
    if not alone then return {0, id, 0, 'ALONE'} end
  end
  if room and bytes > room then return {0, bytes, 0, 'LARGE'} end
end
local reply = bullmq()
if fetched(reply, limits) then
  if fails then
    for i = 1, #reply[1], 2 do
      if reply[1][i] == 'data' then reply[1][i + 1] = '' end
    end
  end
  redis.call('SADD', inHand, name)
  tell()
end
return reply`;

/**
 * With keepMs, the runner has the call: its record says so for as many ms, also if another worker has taken the call meanwhile.
 * Only a call that was taken before may have failed attempts.
 *
 * ARGV[5] is `completed` if the call leaves the queue. ARGV[6] is whether BullMQ fetches the next call in the same step; it does not
 * know the gate. A queue of a job with limits leaves its place to the job's other queues if calls wait there. A call too large for the
 * slot, or one that has ended processes, is left to a fetch of its own.
 */
const FINISH = `
local ms, limits = OPEN, nil
local fetches, refetch = ARGV[6] == '1', nil
if fetches then
  ms, limits = gate(1)
  if ms == OPEN and limits.any and #waiting() > 0 then fetches = false end
  if ms == OPEN and fetches then
    local _, bytes, crashes = head()
    if (room and bytes > room) or crashes >= ${CRASHES.untilAlone} then refetch = {0, 0, 0, 'REFETCH'} end
  end
  if ms ~= OPEN or not fetches or refetch then ARGV[6] = '0' end
end
local bytes = ARGV[5] == 'completed' and redis.call('HSTRLEN', jobs .. ARGV[1], 'data') or 0
local reply = bullmq()
if keepMs ~= '' then
  local record = prefix .. 'call:' .. ARGV[1]
  redis.call('HSET', record, 'st', 'INJECTED', 'at', now, 'v', ${VERSIONS.record})
  redis.call('PEXPIRE', record, keepMs)
  if retried ~= '' then
    redis.call('PEXPIRE', prefix .. 'attempts:' .. ARGV[1], keepMs)
    redis.call('ZREM', prefix .. 'since:' .. name, ARGV[1])
  end
end
if type(reply) == 'number' and reply < 0 then return reply end
if bytes > 0 then redis.call('HINCRBY', prefix .. 'bytes', name, -bytes) end
if not fetches then tell()
elseif ms ~= OPEN then closed(ms)
elseif refetch then reply = refetch
elseif fetched(reply, limits) then
  if limits.any then tell() end
  return reply
end
left()
return reply`;

/** KEYS[1] is the call. It may be in hand, so that a place gets free. */
const DISCARD = `
local bytes = redis.call('HSTRLEN', KEYS[1], 'data')
local reply = bullmq()
if type(reply) == 'number' and reply ~= 1 then return reply end
redis.call('HINCRBY', prefix .. 'bytes', name, -bytes)
tell()
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

/** Around BullMQ's scripts that change what producers must be told of. Each calls `bullmq()`, and returns what it answers. */
const AROUND: readonly NamedScript[] = [
  { command: "addStandardJob", keys: 9, lua: ADD },
  { command: "moveToActive", keys: 11, lua: FETCH },
  { command: "moveToFinished", keys: 14, lua: FINISH },
  { command: "moveToDelayed", keys: 11, lua: DELAY },
  { command: "moveJobFromActiveToWait", keys: 9, lua: MOVE },
  { command: "moveStalledJobsToWait", keys: 9, lua: MOVE },
  { command: "reprocessJob", keys: 9, lua: REPLAY },
  { command: "removeJob", keys: 2, lua: DISCARD },
];

let surrounded: readonly NamedScript[] | undefined;

/** BullMQ's scripts, whole, with ours around them. Throws if BullMQ's are not those that ours were written for. */
export function surroundedScripts(): readonly NamedScript[] {
  surrounded ??= surround(scriptsOfBullmq());
  return surrounded;
}

function surround(definitions: ReadonlyMap<string, Definition>): NamedScript[] {
  return AROUND.map(({ command, keys, lua }) => {
    const bullmq = definitions.get(command);
    if (bullmq?.numberOfKeys !== keys) throw new Error(`BullMQ's script ${command} has changed`);
    const evenIfFull = lua === ADD ? "" : EVEN_IF_FULL; // a full Redis refuses new calls only
    return {
      command,
      keys,
      lua: `${evenIfFull}${FRAME}\nlocal function bullmq()\n${bullmq.lua}\nend\n${lua}`,
    };
  });
}
