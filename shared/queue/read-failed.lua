-- Finds the matching calls among the failed calls in ARGV, and reads them without their bodies. A match has a reason with the
-- prefix `reason`, and a head that contains all `texts` (a JSON array). `budget` limits the bytes of the stored calls that
-- are read because they have no head.
--
-- Returns the number of calls that were checked, a JSON object with the statistics of the counted calls by code, and rows.
-- With `countOnly`, a match is counted; otherwise it has a row.
--
-- A call without a head cannot be matched here, so it always has a row, which ends with the stored call without its body. A
-- call has no head if its producer did not read it (`call.poison_pill`, `call.corrupt`, `record.unreadable`), or if BullMQ
-- itself failed it.
--@include "./bodiless.lua"
local rows, counted, done, budget = {}, {}, 0, tonumber(ARGV.budget)
local reason, texts, counts = ARGV.reason, cjson.decode(ARGV.texts), ARGV.countOnly == '1'
local function hasTexts(head)
  for _, text in ipairs(texts) do
    if not string.find(head, text, 1, true) then return false end
  end
  return true
end

for i = FIRST.calls, #ARGV, WIDTH.calls do
  local queue, id = ARGV[i], ARGV[i + 1]
  local key = ARGV.prefix .. ':' .. queue .. ':' .. id
  local row = redis.call('HMGET', key, 'finishedOn', 'failedReason', 'timestamp', 'atm', HEAD_FIELD)
  local head, at, hasLeft = row[5], tonumber(row[1]), not row[1]
  row[1] = done
  if hasLeft then -- the call is no longer among the failed calls
  elseif head then
    if string.sub(row[2] or '', 1, #reason) == reason and hasTexts(head) then
      if counts then
        local code = string.match(row[2] or '', '^([%l%d_.]+): ') or ''
        local tally = counted[code] or {count = 0, oldestAt = at, newestAt = 0, hours = {}}
        local hour = string.format('%d', math.floor(at / 3600000))
        counted[code], tally.count, tally.hours[hour] = tally, tally.count + 1, (tally.hours[hour] or 0) + 1
        tally.oldestAt = math.min(tally.oldestAt, at)
        if at >= tally.newestAt then tally.newestAt, tally.newest = at, row[2] or '' end
      else rows[#rows + 1] = row end
    end
  else
    budget = budget - redis.call('HSTRLEN', key, 'data')
    if budget < 0 and done > 0 then break end
    row[6] = bodiless(key, 'data')
    rows[#rows + 1] = row
  end
  done = done + 1
end
return {done, cjson.encode(counted), rows}
