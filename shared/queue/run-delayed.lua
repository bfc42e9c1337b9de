-- Moves delayed calls of a queue to those that wait: the call `id`, or else a number of those with a score from `from` on. They go behind the
-- calls that wait already, and no attempt counts. Held calls stay. `since` is when the first step began, or empty in that step. A call that was
-- taken after it has failed once more meanwhile: it stays, or a runner that is still down would cost it all its attempts. `line` is empty once a
-- step has moved a call. `note` says in the log of each call who ran it.
--
-- No pause or hold of an operator ends here, so the time until now counts as latency (unlike with noteResumed).
--
-- Answers how many calls were moved, `since`, and from which score the next step goes on, or an empty text.
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
  -- As BullMQ does when a call's time has come.
  for _, id in ipairs(ids) do redis.call('HSET', q.jobs .. id, 'delay', 0) end
  -- A full Redis keeps one entry of a call's log: why the call was delayed is worth more. A log that cannot be read stops no call.
  local historyOff = prefix .. 'history-off'
  if redis.call('EXISTS', historyOff) == 0 then
    for _, id in ipairs(ids) do
      pcall(logAct, 'early', prefix .. 'attempts:' .. id, historyOff, whole(now), ARGV.note)
    end
  end
  q.tells = true
end
endBatch()
-- Calls may have the same score. Those that were moved are gone from it; if none was, all of them were seen.
local isLast = ARGV.id ~= '' or #found < 2 * MOVED_AT_ONCE
return {#ids, string.format('%.0f', since), isLast and '' or (#ids == 0 and '(' or '') .. found[#found]}
