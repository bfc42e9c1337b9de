-- Runs delayed calls of a queue early: moves them behind the calls that already wait. If `id` is set, moves only that call.
-- Otherwise moves up to MOVED_AT_ONCE calls in the order of their due times, beginning at the score `from`. Held calls stay.
-- The move does not count as an attempt.
--
-- A run over all calls of a job takes several steps. `since` is the start time of the first step, and empty in that step. A
-- call that was taken after `since` has already run early, failed and been delayed again. It stays delayed: otherwise the
-- steps could use up all attempts of a call whose runner is still down. `line` is the line for the audit log, and empty once
-- a step has moved a call. `note` says in the log of each call who ran it.
--
-- The latency of a call does not include the time until the end of its last pause or hold (noteResumed). The time before an
-- early run does count.
--
-- Returns how many calls were moved, `since`, and the score from which the next step continues, or an empty text.
--@include "../redis/even-if-full.lua"
local prefix = ARGV.prefix .. ':'
--@include "./batch.lua"
--@include "../redis/audit/add-act.lua"
--@include "./call-log.lua"
local q = opened(ARGV.gate, ARGV.queue)
local delayed = q.jobs .. 'delayed'
local since = tonumber(ARGV.since) or now
local found = {}
if ARGV.id == '' then
  found = redis.call('ZRANGEBYSCORE', delayed, ARGV.from, '(' .. heldScore, 'WITHSCORES', 'LIMIT', 0, MOVED_AT_ONCE)
else
  local score = redis.call('ZSCORE', delayed, ARGV.id)
  if score and tonumber(score) < tonumber(heldScore) then found = {ARGV.id, score} end
end
local ids = {}
for i = 1, #found, 2 do
  local takenAt = tonumber(redis.call('HGET', q.jobs .. found[i], 'processedOn') or 0)
  if takenAt <= since then ids[#ids + 1] = found[i] end
end
if #ids > 0 then
  if ARGV.line ~= '' then addAct(ARGV.line) end
  redis.call('ZREM', delayed, unpack(ids))
  redis.call('LPUSH', q.wait, unpack(ids))
  -- BullMQ does the same when a delayed call becomes due.
  for _, id in ipairs(ids) do redis.call('HSET', q.jobs .. id, 'delay', 0) end
  -- While Redis is nearly full, a call's log keeps only its newest entry. No early run is logged then, because its entry
  -- would replace the last failure, which is more useful. If the log cannot be read, the call still runs.
  local historyOff = prefix .. 'history-off'
  if redis.call('EXISTS', historyOff) == 0 then
    for _, id in ipairs(ids) do
      pcall(logAct, 'early', prefix .. 'attempts:' .. id, historyOff, whole(now), ARGV.note)
    end
  end
  q.wakes = true
end
endBatch()
-- The next step starts again at the last score, because several calls may share it and moved calls are gone. If this step
-- moved no call, the next one starts after that score.
local isLast = ARGV.id ~= '' or #found < 2 * MOVED_AT_ONCE
return {#ids, string.format('%.0f', since), isLast and '' or (#ids == 0 and '(' or '') .. found[#found]}
