-- Defines functions on the log of a call, `log` (call-log.ts): a list of JSON, the oldest entry first. The first name in an entry says what
-- it is:
--
--   n          a failed attempt; `n` is its number
--   failed     a failed attempt after which the call failed for good, at that time; without `take`, a failure without an attempt
--   lost       an attempt whose outcome was not recorded: its producer ended, stopped or lost the call; known since that time
--   replayed   an operator replayed the call at that time
--   early      an operator ran the delayed call before its time
--   discarded  an operator discarded it
--
-- Each entry has the counts up to it: `n` is how many attempts there were, `taken` the highest take that had one (left out if there was
-- none), `life` 1 more than the number of replays (left out if it is 1), and `ready` when it was last replayed (left out if it never was).
-- So the newest entry knows them all, however few are kept.
-- `take` tells which take of the call the attempt belongs to: BullMQ counts takes, also across replays. So an attempt of a take up to
-- `taken` is in the log already, or was in it.
local function newestOf(log)
  local line = redis.call('LINDEX', log, -1)
  local newest = line and cjson.decode(line) or {n = 0}
  newest.taken = newest.taken or 0
  return newest, line
end

local function whole(number)
  return string.format('%.0f', number)
end

-- An entry from its first name, with the colon and the value, or ''; the counts; and `rest`, JSON without the brace that opens it.
local function entryOf(first, counts, rest)
  local n, taken, life, ready = '"n":' .. whole(counts.n), '', '', ''
  if counts.taken > 0 then taken = ',"taken":' .. whole(counts.taken) end
  if counts.life and counts.life > 1 then life = ',"life":' .. whole(counts.life) end
  if counts.ready then ready = ',"ready":' .. whole(counts.ready) end
  return '{' .. (first == '' and '' or first .. ',') .. n .. taken .. life .. ready .. ',' .. rest
end

-- Of each kind the newest entries are kept; only the newest entry of all while `historyOff` is there. A lost attempt counts as a failed one.
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

-- `attempt` is JSON. A worker that paused may record an attempt that was given up as lost: it replaces that entry. An attempt that is
-- recorded already stays as it is: its worker sends it again if it did not get the reply.
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

-- Unless the attempt is there already: its outcome was recorded, or it was given up before.
local function logLost(log, historyOff, take, at)
  local newest = newestOf(log)
  if take <= newest.taken then return end
  local rest = '"take":' .. whole(take) .. '}'
  append(log, historyOff, entryOf('"lost":' .. at, {n = newest.n + 1, taken = take, life = newest.life, ready = newest.ready}, rest))
end

-- The call failed for good after its attempt of this take, or without one.
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

-- `note` is JSON that says who did it and why.
local function logReplay(log, historyOff, at, note)
  local newest = newestOf(log)
  newest.life, newest.ready = (newest.life or 1) + 1, tonumber(at)
  append(log, historyOff, entryOf('"replayed":' .. at, newest, string.sub(note, 2)))
end

-- `act` is 'early' or 'discarded'.
local function logAct(act, log, historyOff, at, note)
  append(log, historyOff, entryOf('"' .. act .. '":' .. at, newestOf(log), string.sub(note, 2)))
end
