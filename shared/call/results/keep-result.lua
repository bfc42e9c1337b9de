-- How a result gets into a call's record, whichever script writes it. The record's field `rs` says what is known of it. It only ever moves
-- down this list, so the order in which an answer and a delivery are told does not matter:
--
--   (absent)    nothing; for a call that has ended: no result is kept
--   awaited     the runner answered 202, and delivers the result later
--   gone        there was a result, and nobody can tell it any longer; a discard also comes to this, whatever was known
--   kept        it was stored, as the answer to the injection
--   failed      it was stored, as a delivery of the runner that the call failed for good; the runner may run the call again
--   delivered   it was stored, as a delivery of the runner
--
-- Defines functions for the result of a call. They need `prefix`, which ends with a colon, and `resultMs` and `resultsBytesMax` as numbers.

-- `keepResult(id, value)` stores the value in place of what is there, unless a gateway lets go of results. A result that is not kept is
-- gone: the record says that it was there.
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
-- How the stored text of a delivery begins (`encodeResult`).
local deliveredHead = '{"by":"delivery",'

-- Whether a stored text was delivered: as `failed` or as `delivered`; nil if it was not.
local function deliveredAs(text)
  if string.sub(text, 1, #deliveredHead) ~= deliveredHead then return nil end
  return string.find(text, '^' .. deliveredHead .. '"at":%d+,"kind":"failure",') and 'failed' or 'delivered'
end

-- As much of the stored text as `deliveredAs` reads.
local function headOf(id)
  return redis.call('GETRANGE', prefix .. 'result:' .. id, 0, 100)
end

-- Stores the value if `rs` is further down the list than what the record knows. Returns what the record must know now.
local function moveResult(id, known, rs, value)
  local head = headOf(id)
  -- A delivery may have come before the call had a record.
  known = deliveredAs(head) or known
  if (resultRank[rs] or 0) <= (resultRank[known] or 0) then return known end
  if head ~= '' then dropResult(id) end
  if value ~= '' then keepResult(id, value) end
  return rs
end

-- How long a record lives that may live as long as `ms`: an hour longer than its result.
local function outlasts(ms)
  return string.format('%.0f', math.max(tonumber(ms), resultMs + 3600000))
end
