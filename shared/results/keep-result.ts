import { DROP, KEEP } from "../redis/kept-values.ts";
import { NOW } from "../redis/script.ts";
import { VERSIONS } from "../redis/version.ts";

/*
 * How a result gets into a call's record, whichever script writes it. The record's field `rs` says what is known of it, and only ever
 * moves down this list, so that it does not matter in which order an answer and a delivery are told of:
 *
 *   (absent)    nothing; of a call that has ended: none is kept
 *   awaited     the runner answered 202, and delivers the result later
 *   gone        there was one, and nobody can tell it any more; a discard also comes to this, whatever was known
 *   kept        it was stored, as the answer to the injection
 *   delivered   it was stored, as a delivery of the runner
 */

/** How the stored text of a delivery begins (`encodeResult`). */
const DELIVERED_HEAD = `{"v":${VERSIONS.result},"by":"delivery",`;

/** How much longer than its result a record lives. */
const RECORD_OUTLASTS_MS = 3_600_000;

/**
 * Lua with functions for the result of a call; it needs `prefix`, and `resultMs` and `resultsBytesMax` as numbers.
 *
 * `moveResult(id, record, known, rs, value)` moves the record from what it knows to `rs`, if that is further down the list, and stores
 * the value. Answers what is known now. `keepResult` stores only while no gateway lets go of results. What is not kept is gone: the
 * record says that it was there. `outlasts(ms)` is how long a record lives that may live as long as `ms`.
 */
export const RESULT = `
local keepResult, dropResult
do
  local now
  ${KEEP}${DROP}
  keepResult = function(id, value)
    local key, index, count = prefix .. 'result:' .. id, prefix .. 'results', prefix .. 'results:bytes'
    if not now then now = (function()${NOW}
      return now end)() end
    drop(id, key, index, count)
    if redis.call('EXISTS', prefix .. 'results-off') == 1 then return false end
    return keep(id, value, resultMs, resultsBytesMax, key, index, count)
  end
  dropResult = function(id) return drop(id, prefix .. 'result:' .. id, prefix .. 'results', prefix .. 'results:bytes') end
end

local resultRank = {awaited = 1, gone = 2, kept = 3, delivered = 4}

-- A delivery may have come before the call had a record.
local function isDelivered(id)
  local head = '${DELIVERED_HEAD}'
  return redis.call('GETRANGE', prefix .. 'result:' .. id, 0, #head - 1) == head
end

local function moveResult(id, record, known, rs, value)
  if isDelivered(id) then known = 'delivered' end
  if (resultRank[rs] or 0) > (resultRank[known] or 0) then
    known = rs
    if value ~= '' then keepResult(id, value) end
  end
  redis.call('HSET', record, 'rs', known)
  if known ~= 'awaited' then redis.call('PUBLISH', prefix .. 'ends', id) end
  return known
end

local function outlasts(ms)
  return string.format('%.0f', math.max(tonumber(ms), resultMs + ${RECORD_OUTLASTS_MS}))
end`;

/** Lua with `dropResult(id)` alone, for a script that knows `prefix`. */
export const DROP_RESULT = `${DROP}
local function dropResult(id) return drop(id, prefix .. 'result:' .. id, prefix .. 'results', prefix .. 'results:bytes') end`;

/** How long results are kept, and how many bytes they may take. */
export type ResultLimits = {
  /** How long one is kept, if there is room. */
  resultMs: number;
  /** Of a longer body only that it was too long. */
  resultBytesMax: number;
  /** What all together may take. The oldest give way. */
  bytesMax: number;
};

export const RESULT_LIMITS: ResultLimits = {
  resultMs: 86_400_000,
  resultBytesMax: 256 * 1024,
  bytesMax: 256 * 1024 * 1024,
};
