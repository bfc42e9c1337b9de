-- Defines functions on the log of a call, `log` (call-log.ts): a list of JSON, oldest entry first. The first name in an entry
-- is its kind. The value of that name is a time, except that `n` is the number of the attempt:
--
--   n          a failed attempt
--   failed     a failed attempt after which the call failed for good; without `take`, a failure without an attempt
--   lost       an attempt without a recorded outcome: its producer ended, stopped or lost the call. The time is that of the
--              discovery.
--   replayed   an operator replayed the call
--   early      an operator ran the delayed call before its time
--   discarded  an operator discarded the call
--
-- A take moves the call from its queue to a producer. BullMQ numbers the takes of a call, and goes on counting after a
-- replay. `take` is the number of the take in which the attempt was made.
--
-- Each entry also has the counts up to it: `n` is the number of attempts, and `taken` the highest take with an attempt
-- (absent if no take had one). `life` is 1 more than the number of replays (absent if it is 1). `ready` is the time of the
-- last replay (absent without a replay). So the newest entry has all counts, however few entries are kept. Takes are logged
-- in order, so an attempt in a take up to `taken` has been logged already, even if its entry is no longer kept.
local function newestOf(log)
  local line = redis.call('LINDEX', log, -1)
  local newest = line and cjson.decode(line) or {n = 0}
  newest.taken = newest.taken or 0
  return newest, line
end

local function whole(number)
  return string.format('%.0f', number)
end

-- Builds an entry as JSON. `first` is its first member (`"name":value`), which gives its kind, or ''. `rest` has the
-- remaining members and the closing brace.
local function entryOf(first, counts, rest)
  local n, taken, life, ready = '"n":' .. whole(counts.n), '', '', ''
  if counts.taken > 0 then taken = ',"taken":' .. whole(counts.taken) end
  if counts.life and counts.life > 1 then life = ',"life":' .. whole(counts.life) end
  if counts.ready then ready = ',"ready":' .. whole(counts.ready) end
  return '{' .. (first == '' and '' or first .. ',') .. n .. taken .. life .. ready .. ',' .. rest
end

-- Appends an entry, and keeps only the newest entries of each kind. While `historyOff` exists, keeps only the newest entry of
-- all. Lost attempts and failed attempts count as one kind.
local function append(log, historyOff, entry)
  local size = redis.call('RPUSH', log, entry)
  if redis.call('EXISTS', historyOff) == 1 then
    redis.call('LTRIM', log, -1, -1)
  elseif size > LOG_KEPT then
    local room, lines = {}, redis.call('LRANGE', log, 0, -1)
    for i = size, 1, -1 do
      local kind = string.match(lines[i], '^{"(%l+)"')
      if kind == 'lost' then kind = 'n' end
      room[kind] = (room[kind] or LOG_KEPT) - 1
      if room[kind] < 0 then redis.call('LREM', log, 1, lines[i]) end
    end
  end
end

-- Logs a failed attempt; `attempt` is JSON. If the log has the attempt as lost, because its producer stalled, the new entry
-- replaces the lost one. If the log already has the outcome, nothing changes. This happens if a producer got no reply, and so
-- repeats the write.
local function logAttempt(log, historyOff, take, attempt)
  local newest, rest = newestOf(log), '"take":' .. whole(take) .. ',' .. string.sub(attempt, 2)
  if take > newest.taken then
    append(log, historyOff, entryOf('', {n = newest.n + 1, taken = take, life = newest.life, ready = newest.ready}, rest))
    return
  end
  for i, line in ipairs(redis.call('LRANGE', log, 0, -1)) do
    local lost = string.find(line, '^{"lost"') and cjson.decode(line)
    if lost and lost.take == take then redis.call('LSET', log, i - 1, entryOf('', lost, rest)) end
  end
end

-- Logs an attempt as lost. Writes nothing if the log already has the attempt, with its outcome or as lost.
local function logLost(log, historyOff, take, at)
  local newest = newestOf(log)
  if take <= newest.taken then return end
  local rest = '"take":' .. whole(take) .. '}'
  append(log, historyOff, entryOf('"lost":' .. at, {n = newest.n + 1, taken = take, life = newest.life, ready = newest.ready}, rest))
end

-- Logs that the call failed for good. If the newest entry is the attempt of this take, changes that entry. Otherwise adds a
-- failure without an attempt.
local function logFailed(log, historyOff, take, at, reason)
  local newest, line = newestOf(log)
  local first = '"failed":' .. at
  if line and string.find(line, '^{"n"') and newest.take == take then
    redis.call('LSET', log, -1, '{' .. first .. ',' .. string.sub(line, 2))
  else
    local rest = '"reason":' .. cjson.encode(reason) .. '}'
    append(log, historyOff, entryOf(first, newest, rest))
  end
end

-- Logs a replay. `note` is JSON that says who did it and why.
local function logReplay(log, historyOff, at, note)
  local newest = newestOf(log)
  newest.life, newest.ready = (newest.life or 1) + 1, tonumber(at)
  append(log, historyOff, entryOf('"replayed":' .. at, newest, string.sub(note, 2)))
end

-- Logs that an operator has begun the next attempt before it was due (`act` is 'early'), or has discarded the call ('discarded').
local function logAct(act, log, historyOff, at, note)
  append(log, historyOff, entryOf('"' .. act .. '":' .. at, newestOf(log), string.sub(note, 2)))
end
