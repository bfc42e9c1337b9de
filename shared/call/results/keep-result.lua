-- Rules for storing a call's result. All scripts that store one include them. The field `rs` of the call's record has the
-- state of the result. The state only moves down this list. So it does not matter whether the runner's answer or its later
-- delivery arrives first:
--
--   (absent)    The call has not ended, or its job keeps no results.
--   awaited     The runner answered 202, and delivers the result later.
--   gone        There was a result, and it is lost. A discard also sets this, if there was a state or a stored result.
--   kept        The result is stored. The runner gave it in its answer to the injection.
--   failed      The runner delivered later that the call failed for good, and this is stored. The runner may run it again.
--   delivered   The result is stored. The runner delivered it later.
--
-- Defines functions for the result of a call. They need `prefix`, which ends with a colon, and `resultMs` and
-- `resultsBytesMax` as numbers.

-- `keepResult(id, value)` replaces the stored value, and returns whether it is kept. While a gateway evicts results because
-- Redis is nearly full, nothing is kept. The state in the record is set even then. A reader that finds no value under it
-- reports the result as gone.
local keepResult, dropResult
do
  local now, isOff
  --@include "../../redis/kept-values.lua"
  local own, index, count = prefix .. 'result:', prefix .. 'results', prefix .. 'results:bytes'
  dropResult = function(id)
    local bytes = drop(id, own .. id, index, count)
    if kept then kept = kept - bytes end
  end
  keepResult = function(id, value)
    if not now then
      now = (function()
        --@include "../../redis/now.lua"
        return now end)()
      isOff = redis.call('EXISTS', prefix .. 'results-off') == 1
    end
    return not isOff and keep(id, value, resultMs, resultsBytesMax, own .. id, index, count)
  end
end

local resultRank = {awaited = 1, gone = 2, kept = 3, failed = 4, delivered = 5}
-- Start of a stored result that the runner delivered later (`encodeResult` in result.ts).
local deliveredHead = '{"by":"delivery",'

-- Returns the state `failed` or `delivered` if the stored text is a result that the runner delivered later; otherwise nil.
local function deliveredAs(text)
  if string.sub(text, 1, #deliveredHead) ~= deliveredHead then return nil end
  return string.find(text, '^' .. deliveredHead .. '"at":%d+,"kind":"failure",') and 'failed' or 'delivered'
end

-- Returns the beginning of the stored text, which is all that `deliveredAs` needs.
local function headOf(id)
  return redis.call('GETRANGE', prefix .. 'result:' .. id, 0, 100)
end

-- Stores the value if the new state `rs` is further down the list above than the state in the record. Returns the new state
-- for the record.
local function moveResult(id, known, rs, value)
  local head = headOf(id)
  -- A stored delivery counts even if the record does not show it, because a runner may deliver before the call has a record.
  known = deliveredAs(head) or known
  if (resultRank[rs] or 0) <= (resultRank[known] or 0) then return known end
  if head ~= '' then dropResult(id) end
  if value ~= '' then keepResult(id, value) end
  return rs
end

-- Returns the retention time of a record in ms: at least `ms`, and at least an hour longer than its result is kept.
local function recordKeepMs(ms)
  return string.format('%.0f', math.max(tonumber(ms), resultMs + 3600000))
end
