import { JOB_ORIGINS } from "../job-call/origin.ts";
import { BATCH_BYTES_MAX } from "../redis/batches.ts";
import { EVEN_IF_FULL, NOW } from "../redis/script.ts";
import { PLAIN_RECORD, VERSIONS } from "../redis/version.ts";
import { RESULT, tellChange } from "../results/keep-result.ts";
import awakeLua from "./awake.lua";
import bullmqsAddLua from "./bullmqs-add.lua";
import bullmqsFinishLua from "./bullmqs-finish.lua";
import bullmqsTakeLua from "./bullmqs-take.lua";
import { AWAITED_KEEP_MS, PREPARED_FIELD } from "./callbacks.ts";
import delayLua from "./delay.lua";
import delaysLua from "./delays.lua";
import discardLua from "./discard.lua";
import failLua from "./fail.lua";
import { CRASHES, JOB_NAME, JOB_OPTIONS } from "./protocol.ts";
import { CALLBACKS_GATE } from "./queue-name.ts";
import replayLua from "./replay.lua";
import requeueLua from "./requeue.lua";
import takeBackLua from "./take-back.lua";

/*
 * Lua around each of BullMQ's scripts, so that BullMQ's change of a queue and what producers are told of it are one step.
 * Three keys of a partition tell them:
 *
 *   wake    queues with calls that may be taken now. Each producer blocks on it, and takes names out.
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
 *
 * Callbacks go through the gate of their receiver instead, `callback/<receiver>`, which holds for its queues of all jobs. What it does
 * not say itself the gate `callback` says, for each receiver.
 */

/** A worker that is not the one that takes calls alone looks again after so long. */
const ALONE_AGAIN_MS = 1000;

/** Lua that reads what ends the ARGV of a script around one of BullMQ's, whose KEYS and ARGV come first. */
const TAIL = `
local tail = #ARGV - 2
local prefix = ARGV[tail] .. ':'`;
const Q = "local q = queueOf(ARGV[tail + 1], ARGV[tail + 2])";

/**
 * What our Lua does with one queue, `q`: behind a gate (`jobName`, since mostly it is that of a job), under `prefix`, at `now`, by Redis'
 * clock. BullMQ's scripts get the same time as `timestamp`, so that no process's clock decides when a call is due. BullMQ too names most
 * of its keys by a prefix; all of them lie in one slot.
 */
const FRAME = `
${NOW}
local timestamp = string.format('%.0f', now)
${delaysLua}${awakeLua}
local wake, due, inHand = prefix .. 'wake', prefix .. 'due', prefix .. 'active'

local function queueOf(jobName, name)
  local jobs = prefix .. name .. ':'
  return {jobName = jobName, name = name, jobs = jobs, wait = jobs .. 'wait', active = jobs .. 'active'}
end

local origins = {${JOB_ORIGINS.map((origin) => `'${origin}/'`).join(", ")}}

-- Whose callbacks the queue has, if it has any.
local function receiverOf(q)
  if q.receiver == nil then q.receiver = string.match(q.jobName, '^${CALLBACKS_GATE}/(.*)') or false end
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
  for _, origin in ipairs(origins) do
    local other = origin .. q.jobName
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
  local job = prefix .. 'job:' .. q.jobName
  local ofAll = receiverOf(q) and redis.call('HMGET', prefix .. 'job:${CALLBACKS_GATE}', 'paused', 'concurrency')
  q.isFree = not ofAll and redis.call('EXISTS', job) == 0
  if q.isFree then return OPEN, FREE end
  local paused, throttled, concurrency, max, duration =
    unpack(redis.call('HMGET', job, 'paused', 'throttled', 'concurrency', 'max', 'duration'))
  if ofAll then paused, concurrency = paused or ofAll[1], concurrency or ofAll[2] end
  local limits = {any = concurrency or max, concurrency = concurrency, max = max, duration = duration}
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
  local taken = prefix .. 'taken:' .. q.jobName
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

-- The record of a call just taken may still hold the state it had outside the queue; and a producer of an earlier release does not note
-- that nobody knows how far the one came from which it took the call back. Answers the state found and the window, or NEWER if a later
-- release wrote the record.
local function queued(id, crashes)
  local record = prefix .. 'call:' .. id
  local st, windowMs, v = unpack(redis.call('HMGET', record, 'st', 'w', 'v'))
  if tonumber(v or 1) > ${VERSIONS.record} then return 'NEWER', '' end
  if st and crashes > 0 then redis.call('HSET', record, 'unsure', 1) end
  if st == 'FAILED' then
    redis.call('HSET', record, 'st', 'QUEUED', 'at', now)
    redis.call('PERSIST', record)
    ${tellChange("id")}
  end
  return st or '', windowMs or ''
end

-- After a fetch by BullMQ. Answers whether it took a call. What is to be known of it comes in the reply's last place, where BullMQ
-- puts the time of the next delayed call if it took none; in its place comes for how many ms that call is still delayed.
local function fetched(q, reply, limits)
  if type(reply) ~= 'table' or type(reply[1]) ~= 'table' then
    redis.call('ZREM', wake, q.name)
    local nextAt = type(reply) == 'table' and tonumber(reply[4]) or 0
    if nextAt > 0 then reply[4] = math.max(1, nextAt - now) end
    -- The place that this queue does not use is the job's.
    if limits.concurrency and redis.call('EXISTS', q.wait) == 0 then tell(q) end
    return false
  end
  local job, fields = {}, reply[1]
  for i = 1, #fields, 2 do job[fields[i]] = fields[i + 1] end
  reply[1] = 0
  local crashes = tonumber(job.stc or 0)
  reply[4] = {job.data or '', tonumber(job.timestamp or 0), tonumber(job.atm or 0), tonumber(job.ats or 0), crashes, queued(reply[2], crashes)}
  local taken = prefix .. 'taken:' .. q.jobName
  if limits.max and redis.call('INCR', taken) == 1 then redis.call('PEXPIRE', taken, limits.duration) end
  return true
end

-- Takes a call off the failed ones of its queue, with its body. Does nothing if it is not among them.
local function dropFailed(q, id)
  if redis.call('ZREM', q.jobs .. 'failed', id) == 0 then return end
  local own = q.jobs .. id
  redis.call('HINCRBY', prefix .. 'bytes', q.name, -redis.call('HSTRLEN', own, 'data'))
  redis.call('DEL', own)
end

-- A queue is in the set of those with calls in hand only while it has some.
local function updateInHand(q)
  if redis.call('EXISTS', q.active) == 0 then redis.call('SREM', inHand, q.name) end
end

-- A call was added, and so many wait now. Producers are told of a queue in which none waited. A queue with calls is registered, since it
-- leaves the registry only when it is empty.
local function added(q, waits)
  if waits > 1 then return end
  if redis.call('SADD', prefix .. 'queues', q.name) == 1 then
    redis.call('HSET', q.jobs .. 'meta', 'opts.maxLenEvents', 100)
    if receiverOf(q) then redis.call('SADD', prefix .. 'receiver:' .. receiverOf(q), q.name) end
  end
  tellOf(q.name, (gate(q, 0)))
end
`;

/**
 * A script under BullMQ's name of it. `keys` is how many KEYS BullMQ's has, and `timestampAt` which of its ARGV is the time of the process,
 * if one is.
 */
type NamedScript = { command: string; keys: number; lua: string; timestampAt?: number };

/** A call in hand waits again. */
const MOVE = `
local reply = bullmq()
if type(reply) == 'number' and reply < 0 then return reply end
tell(q)
updateInHand(q)
return reply`;

/**
 * ARGV[1] is the id. A call stays as failed, unless another worker has told of a 2xx since its record said so. Its callback is queued, if
 * it has one (callbacks.ts). If it fails again after a replay, its receiver is told again, under the same id.
 */
const FAIL = () => `
local reply = bullmq()
if type(reply) == 'number' and reply < 0 then return reply end
local own = q.jobs .. ARGV[1]
local prepared = redis.call('HGET', own, '${PREPARED_FIELD}')
if prepared then redis.call('HDEL', own, '${PREPARED_FIELD}') end
if redis.call('HGET', prefix .. 'call:' .. ARGV[1], 'st') == 'INJECTED' then dropFailed(q, ARGV[1])
elseif prepared then${CALLBACKS()}
  local callback = callbackOf(cjson.decode(prepared), 'call.failed', own)
  if callback then
    redis.call('DEL', prefix .. 'call:' .. callback.id)
    queueCallback(callback)
  end
end
tell(q)
updateInHand(q)
return reply`;

/** Nobody knows how far the workers came that had these calls in hand. */
const TAKE_BACK = `
local ids = bullmq()
for _, id in ipairs(ids) do
  local record = prefix .. 'call:' .. id
  if redis.call('EXISTS', record) == 1 then redis.call('HSET', record, 'unsure', 1) end
end
tell(q)
updateInHand(q)
return ids`;

/** ARGV[1] is the id. A call that has ended processes is taken alone when it is replayed. */
const REPLAY = `
local reply = bullmq()
if type(reply) == 'number' and reply < 0 then return reply end
if tonumber(redis.call('HGET', q.jobs .. ARGV[1], 'stc') or 0) > ${CRASHES.untilAlone} then
  redis.call('HSET', q.jobs .. ARGV[1], 'stc', ${CRASHES.untilAlone})
end
tell(q)
return reply`;

/** KEYS[1] is the call. It may be in hand, so that a place gets free. */
const DISCARD = `
local bytes = redis.call('HSTRLEN', KEYS[1], 'data')
local reply = bullmq()
if type(reply) == 'number' and reply ~= 1 then return reply end
redis.call('HINCRBY', prefix .. 'bytes', q.name, -bytes)
tell(q)
updateInHand(q)
return reply`;

/** ARGV[5] is the delay, in ms. */
const DELAY = `
local reply = bullmq()
if type(reply) == 'number' and reply < 0 then return reply end
redis.call('ZADD', due, 'LT', now + ARGV[5], q.name)
tell(q)
updateInHand(q)
return reply`;

/** Around BullMQ's scripts that change what producers must be told of. Each calls `bullmq()`, and returns what it answers. */
const around = (): readonly NamedScript[] => [
  { command: "moveToFinished", keys: 14, lua: failLua + FAIL(), timestampAt: 2 },
  { command: "moveToDelayed", keys: 11, lua: delayLua + DELAY, timestampAt: 2 },
  { command: "moveJobFromActiveToWait", keys: 9, lua: requeueLua + MOVE },
  { command: "moveStalledJobsToWait", keys: 9, lua: takeBackLua + TAKE_BACK, timestampAt: 3 },
  { command: "reprocessJob", keys: 9, lua: replayLua + REPLAY },
  { command: "removeJob", keys: 2, lua: discardLua + DISCARD },
];

let surrounded: readonly NamedScript[] | undefined;

/** BullMQ's scripts, whole, with ours around them. */
export function surroundedScripts(): readonly NamedScript[] {
  surrounded ??= around().map(({ command, keys, lua, timestampAt }) => {
    const stamped = timestampAt === undefined ? "" : `ARGV[${timestampAt}] = timestamp`;
    return { command, keys, lua: `${EVEN_IF_FULL}${TAIL}${FRAME}${Q}\n${stamped}\n${lua}` };
  });
  return surrounded;
}

/** As the fields of a table. */
function jobOptions(): string {
  return Object.entries(JOB_OPTIONS)
    .map(([name, value]) => `${name} = ${value}`)
    .join(", ");
}

const ADD_KEYS = ["wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker"];

/**
 * Lua with a function that adds calls to queues, as BullMQ's own script does: a call that its queue has already is left alone. It
 * needs `prefix`; `add(jobName, name, id, data)` takes the call as stored. `endBatch()` ends the script.
 *
 * Nobody here reads BullMQ's event stream, which keeps 10,000 entries by default.
 */
export function addLua(): string {
  return `${batchOf(ADD_KEYS)}
${bullmqsAddLua}
local bullmq = newBullmqsAdd()
local optionsOf = packer('jobId', {${jobOptions()}})
local function add(jobName, name, id, data)
  local q = opened(jobName, name)
  q.length = q.length or redis.call('LLEN', q.wait)
  bullmq(q.keys, {cmsgpack.pack({q.jobs, id, '${JOB_NAME}', timestamp}), data, optionsOf(id)})
  local length = redis.call('LLEN', q.wait)
  if length > q.length then q.bytes = q.bytes + #data end
  q.length = length
  added(q, length)
end`;
}

/**
 * Lua with two functions for the callback of a call that has ended, for a script with `FRAME`. `callbackOf(prepared, ending, own)` finds the one
 * that was prepared for this ending (callbacks.ts), or makes it of what BullMQ's hash of the call, `own`, has, if nobody has read that;
 * nil if the call has none. `queueCallback` adds it to its queue, where one that is there is left alone.
 */
const CALLBACKS = () => `
local function callbackOf(prepared, ending, own)
  if prepared.queue then
    local id, data = unpack(prepared[ending])
    return {id = id, data = data, queue = prepared.queue, gate = prepared.gate}
  end
  local stored = redis.call('HGET', own, 'data') or ''
  local at = string.find(stored, ',"callback":{', 1, true)
  local to = at and string.match(stored, '%b{}', at)
  local ok, target = pcall(cjson.decode, to)
  if not ok or type(target.receiver) ~= 'string' then return nil end
  local data = string.gsub(prepared.data, '"to":null', function() return '"to":' .. to end)
  local queue = '${CALLBACKS_GATE}/' .. prepared.job .. '/' .. target.receiver
  return {id = prepared.id, data = data, queue = queue, gate = '${CALLBACKS_GATE}/' .. target.receiver}
end

${bullmqsAddLua}
local bullmqsAdd
local function queueCallback(callback)
  bullmqsAdd = bullmqsAdd or newBullmqsAdd()
  local q = queueOf(callback.gate, callback.queue)
  local keys = {${ADD_KEYS.map((key) => `q.jobs .. '${key}'`).join(", ")}}
  local options = {jobId = callback.id, ${jobOptions()}}
  local waited = redis.call('LLEN', q.wait)
  local args = {q.jobs, callback.id, '${JOB_NAME}', timestamp}
  bullmqsAdd(keys, {cmsgpack.pack(args), callback.data, cmsgpack.pack(options)})
  local waits = redis.call('LLEN', q.wait)
  if waits > waited then redis.call('HINCRBY', prefix .. 'bytes', q.name, #callback.data) end
  added(q, waits)
end`;

/** Lua for a script of another module that queues a callback: it needs `prefix`, with its colon. */
export function callbacksLua(): string {
  return `${FRAME}${CALLBACKS()}`;
}

/** Lua with the queues of a batch, which know such KEYS of theirs. */
function batchOf(keys: readonly string[]): string {
  return `${FRAME}
-- Packs maps that differ in the value of one key: the others are packed once. MessagePack's byte before a small map is its size.
local function packer(key, others)
  local packed = cmsgpack.pack(others)
  local head, rest = string.char(string.byte(packed) + 1) .. cmsgpack.pack(key), string.sub(packed, 2)
  return function(value) return head .. cmsgpack.pack(value) .. rest end
end

local queues = {}
local function opened(jobName, name)
  local q = queues[name]
  if not q then
    q = queueOf(jobName, name)
    q.bytes = 0
    q.keys = {${keys.map((key) => `q.jobs .. '${key}'`).join(", ")}}
    queues[name] = q
  end
  return q
end

-- By how much the stored calls of each queue have grown or shrunk.
local function writeBytes()
  local names, changes = {}, {}
  for name, q in pairs(queues) do
    if q.bytes ~= 0 then names[#names + 1], changes[#changes + 1] = name, q.bytes end
  end
  local key = prefix .. 'bytes'
  if #names < 3 then
    for i, name in ipairs(names) do redis.call('HINCRBY', key, name, changes[i]) end
    return
  end
  local written = {}
  for i, bytes in ipairs(redis.call('HMGET', key, unpack(names))) do
    written[#written + 1] = names[i]
    written[#written + 1] = string.format('%.0f', (tonumber(bytes) or 0) + changes[i])
  end
  redis.call('HSET', key, unpack(written))
end

-- The calls that watchers are told of, in one message for all.
local changed, changes = {}, 0
local function hasChanged(id)
  changes = changes + 1
  changed[changes] = id
end

-- Writes once for each queue what the items have changed. What fails here makes no item fail, since all of them have run.
local function endBatch()
  pcall(writeBytes)
  for _, q in pairs(queues) do
    if q.ended and q.ended > 0 then pcall(redis.call, 'HINCRBY', q.jobs .. 'metrics:completed', 'count', q.ended) end
    if q.tells then pcall(tell, q) end
  end
  if changes > 0 then ${tellChange("table.concat(changed, ' ')")} end
end`;
}

/** KEYS of BullMQ's scripts that end a call and take one. The first ten are the same. */
const WORK_KEYS = [
  "wait",
  "active",
  "prioritized",
  "events",
  "stalled",
  "limiter",
  "delayed",
  "paused",
  "meta",
  "pc",
];
const FINISH_KEYS = [...WORK_KEYS, "completed", "", "metrics:completed", "marker"];
const TAKE_KEYS = [...WORK_KEYS, "marker"];
/** Which of them is the call's own, which follows the queue's name; Lua counts from 1. */
const OWN_KEY = FINISH_KEYS.indexOf("") + 1;

/** How many words one step of a worker has (`workLua`). */
const STEP_WORDS = 11;
/** What the answer for one item of a batch begins with if it has failed alone. */
const FAILED_ALONE = "ERROR: ";

/** The answer of a worker's step if the runner has taken a call whose refund was exported meanwhile. */
export const AFTER_REFUND = "AFTER_REFUND";

/** The answer for one item of a batch. Throws if it has failed alone. */
export function answerOf(answer: unknown): unknown {
  if (typeof answer !== "string" || !answer.startsWith(FAILED_ALONE)) return answer;
  throw new Error(answer.slice(FAILED_ALONE.length));
}

/**
 * What a worker does: a call leaves its queue, the next one is taken, or both. KEYS queues. ARGV prefix, worker, lockMs, how many
 * minutes of metrics BullMQ keeps, how long results are kept, and how many bytes they may take; then for each step: job, queue, token,
 * the call that leaves or none, keepMs, retried, takes, room, alone; nothing, or what is known of the call's result, or the result to
 * store; and nothing, or its callback as it was prepared (callbacks.ts). Answers for each what BullMQ's script does, or ERROR and the error: one that fails fails alone.
 *
 * With keepMs, the runner has the call: its record says so for as many ms, also if another worker has taken the call meanwhile, or has
 * ended it as failed. Of a payment whose refund is exported it only notes it, and answers AFTER_REFUND. The result of a call whose job
 * keeps it is stored in the same step (shared/results/keep-result.ts).
 * Only a call that was taken before (retried), or by another worker since, may have failed attempts.
 *
 * The callback of a call is queued in the step that makes its record say INJECTED; if its result is still to be delivered, it stays with the
 * record for the step that stores the delivery (shared/calls/deliver-result.ts).
 *
 * The worker has room for so many bytes of the next call as stored (none said: for any). A larger call is not taken, and the answer
 * says how large it is; nor one that has ended processes, unless the worker has nothing else in hand and no other worker takes such a
 * call. One that must fail comes without its data, which may be what ends processes.
 *
 * BullMQ takes the next call in the step that ends one, and does not know the gate. A queue of a job with limits leaves its place to
 * the job's other queues if calls wait there. What is not an ordinary call that fits is left to a step that only takes, and one
 * that would make the answer long to a later batch.
 */
export function workLua(): string {
  return `${EVEN_IF_FULL}
local prefix, worker, lockMs, minutes = ARGV[1] .. ':', ARGV[2], ARGV[3], ARGV[4]
local resultMs, resultsBytesMax = tonumber(ARGV[5]), tonumber(ARGV[6])
${batchOf(FINISH_KEYS)}
${bullmqsFinishLua}${bullmqsTakeLua}
local bullmqsFinish, bullmqsTake, counted, uncounted, toTake
local function optionsWith(maxMetricsSize)
  return packer('token', {
    name = worker, keepJobs = {count = 0}, lockDuration = lockMs, maxMetricsSize = maxMetricsSize
  })
end

-- BullMQ's metrics count the first call of a queue, and with it those that follow in the batch.
local function finish(q, own, id, token, takes)
  bullmqsFinish = bullmqsFinish or newBullmqsFinish()
  q.keys[${OWN_KEY}] = own
  if q.ended then uncounted = uncounted or optionsWith('')
  else counted = counted or optionsWith(tonumber(minutes)) end
  local options = q.ended and uncounted or counted
  local next = takes and '1' or '0'
  local reply = bullmqsFinish(q.keys, {id, timestamp, 'returnvalue', 'null', 'completed', next, q.jobs, options(token), ''})
  if type(reply) ~= 'number' or reply >= 0 then q.ended = (q.ended or -1) + 1 end
  return reply
end

-- What results need is made for the first call that has one: most batches have none.
local results
local function newResults()
${RESULT}
  return {move = moveResult, outlasts = outlasts}
end

-- The same of callbacks.
local callbacks
local function newCallbacks()
${CALLBACKS()}
  return function(record, prepared, known, keepMs)
    if known == 'awaited' or known == 'failed' then
      redis.call('HSET', record, 'cb', prepared)
      keepMs = string.format('%.0f', math.max(tonumber(keepMs), ${AWAITED_KEEP_MS}))
    end
    if known ~= 'awaited' then
      local ending = known == 'failed' and 'call.failed' or 'call.completed'
      queueCallback(callbackOf(cjson.decode(prepared), ending))
    end
    return keepMs
  end
end

-- The runner has the call. Answers whether it is too late to say so. Of a call that was forgotten meanwhile, which nobody can have in
-- hand, nothing is kept.
local function injected(q, id, keepMs, retried, result, isLost, prepared)
  local record = prefix .. 'call:' .. id
  local st, known, code
  if result == '' then st = redis.call('HGET', record, 'st')
  else st, known, code = unpack(redis.call('HMGET', record, 'st', 'rs', 'fc')) end
  if st == 'REFUND_PENDING' or st == 'REFUNDED' then
    redis.call('HSETNX', record, 'late', now)
    if result ~= '' then redis.call('HSETNX', record, 'rs', 'gone') end
    return true
  end
  if isLost and redis.call('HEXISTS', record, 'fg') == 1 then
    redis.call('HSET', record, 'st', 'INJECTED', 'at', now)
    hasChanged(id)
    return false
  end
  if result == '' then redis.call('HSET', record, 'st', 'INJECTED', 'at', now, 'v', '${PLAIN_RECORD}')
  else
    results = results or newResults()
    local isKnown = result == 'awaited' or result == 'gone'
    known = results.move(id, known, isKnown and result or 'kept', isKnown and '' or result)
    redis.call('HSET', record, 'st', 'INJECTED', 'at', now, 'v', '${PLAIN_RECORD}', 'rs', known, 'jb', q.jobName)
    if code then redis.call('HDEL', record, 'fc', 'fp') end
    keepMs = results.outlasts(keepMs)
  end
  if prepared ~= '' and st ~= 'INJECTED' then
    callbacks = callbacks or newCallbacks()
    keepMs = callbacks(record, prepared, known, keepMs)
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
  return answered > 0 and answered + bytes > ${BATCH_BYTES_MAX}
end

local REFETCH = {0, 0, 0, 'REFETCH'}

local function leave(q, id, token, keepMs, retried, takes, room, result, prepared)
  local ms, limits, refetch = OPEN, nil, false
  if takes then
    ms, limits = gate(q, 1)
    if ms == OPEN then
      takes = not (limits.any and #waiting(q) > 0)
      if takes then
        local _, bytes, crashes = head(q)
        refetch = bytes > room or isMuch(bytes) or crashes >= ${CRASHES.untilAlone}
        if not refetch then answered = answered + bytes end
      end
    end
  end
  local own = q.jobs .. id
  local bytes = redis.call('HSTRLEN', own, 'data')
  local reply = finish(q, own, id, token, takes and ms == OPEN and not refetch)
  local isLost = type(reply) == 'number' and reply < 0
  local isLate = keepMs ~= '' and injected(q, id, keepMs, retried or isLost, result, isLost, prepared)
  if isLost then
    if isLate then return '${AFTER_REFUND}' end
    if keepMs ~= '' then dropFailed(q, id) end
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

-- Whether this worker is the one that takes calls alone, for as long as a lock lasts. The others go on meanwhile.
local function isTheOne()
  local by = redis.call('GET', prefix .. 'alone')
  if by and by ~= worker then return false end
  redis.call('SET', prefix .. 'alone', worker, 'PX', lockMs)
  return true
end

-- The answer if the next call is not to be taken in this way now.
local function refused(q, id, bytes, crashes, room, alone)
  if crashes >= ${CRASHES.untilAlone} then
    if not isTheOne() then
      closed(q, ${ALONE_AGAIN_MS})
      return {0, 0, ${ALONE_AGAIN_MS}, 0}
    end
    if not alone then return {0, id, 0, 'ALONE'} end
  end
  if room and bytes > room then return {0, bytes, 0, 'LARGE'} end
end

local function take(q, token, room, alone)
  local ms, limits = gate(q, 0)
  if ms ~= OPEN then
    closed(q, ms)
    return {0, 0, math.max(ms, 0), 0}
  end
  local id, bytes, crashes = head(q)
  local fails = crashes >= ${CRASHES.untilFailed}
  local answer = id and not fails and refused(q, id, bytes, crashes, room, alone)
  if answer then return answer end
  if isMuch(bytes) then return REFETCH end
  bullmqsTake = bullmqsTake or newBullmqsTake()
  toTake = toTake or packer('token', {name = worker, lockDuration = lockMs})
  local keys = {unpack(q.keys, 1, ${WORK_KEYS.length})}
  keys[${TAKE_KEYS.length}] = q.keys[${FINISH_KEYS.length}]
  local reply = bullmqsTake(keys, {q.jobs, timestamp, toTake(token)})
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

local function step(jobName, name, token, id, keepMs, retried, takes, room, alone, result, prepared)
  local q = opened(jobName, name)
  if id == '' then return take(q, token, tonumber(room), alone == '1') end
  return leave(q, id, token, keepMs, retried == '1', takes == '1', tonumber(room), result, prepared)
end
${eachAlone("step", 7, STEP_WORDS)}`;
}

/**
 * Lua that runs a function of a batch with each so many words of ARGV. On a replica the batch fails as a whole, so that the client
 * looks for the master.
 */
export function eachAlone(does: string, first: number, words: number): string {
  return `
local answers = {}
for i = ${first}, #ARGV, ${words} do
  local ok, answer = pcall(${does}, unpack(ARGV, i, i + ${words - 1}))
  if not ok then
    local reason = type(answer) == 'table' and answer.err or tostring(answer)
    if string.find(reason, '^-?READONLY') then return redis.error_reply(reason) end
    answer = '${FAILED_ALONE}' .. reason
  end
  answers[#answers + 1] = answer
end
endBatch()
return answers`;
}
