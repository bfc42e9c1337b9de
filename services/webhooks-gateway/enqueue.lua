-- Adds calls as stored to their queues, unless they are known. `by` is empty if a repeat is not recognised. Answers for each call NEW, CONFLICT,
-- the state and job found, or ERROR and the error: one that fails fails alone. The record comes after the add, so that it never says QUEUED
-- of a call that is not there.
local prefix = ARGV.prefix .. ':'
--@include "../../shared/queue/add.lua"
local function enqueue(gateName, name, id, data, by, bodyHash, windowMs)
  if by == '' then
    add(gateName, name, id, data)
    return 'NEW'
  end
  local record = prefix .. 'call:' .. id
  local st, bh, known, job = unpack(redis.call('HMGET', record, 'st', 'bh', 'by', 'jb'))
  -- An older release kept the whole hash.
  if st and bh and string.sub(bh, 1, #bodyHash) ~= bodyHash then return 'CONFLICT' end
  if st then return known == by and 'NEW' or st .. ' ' .. (job or '') end
  add(gateName, name, id, data)
  redis.call('HSET', record, 'st', 'QUEUED', 'bh', bodyHash, 'w', windowMs, 'at', now, 'by', by,
    'jb', gateName)
  return 'NEW'
end
--@include "../../shared/queue/each-alone.lua"
return eachAlone(enqueue, FIRST.calls, WIDTH.calls)
