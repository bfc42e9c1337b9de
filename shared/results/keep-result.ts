import { KEPT_VALUES } from "../redis/kept-values.ts";
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
 *   failed      it was stored, as a delivery of the runner that the call failed for good; the runner may run the call again
 *   delivered   it was stored, as a delivery of the runner
 */

/** How the stored text of a delivery begins (`encodeResult`), and of one that tells of a failure, as a pattern of Lua. */
const DELIVERED_HEAD = `{"v":${VERSIONS.result},"by":"delivery",`;
const FAILED_HEAD = `^${DELIVERED_HEAD}"at":%d+,"kind":"failure",`;
/** As long as either may be. */
const HEAD_CHARS = 100;

/** How much longer than its result a record lives. */
const RECORD_OUTLASTS_MS = 3_600_000;

/**
 * Lua with functions for the result of a call; it needs `prefix`, and `resultMs` and `resultsBytesMax` as numbers.
 *
 * `moveResult(id, known, rs, value)` stores the value if `rs` is further down the list than what the record knows, and answers what the
 * record has to know now. `keepResult(id, value)` stores, in place of what is there, unless a gateway lets go of results. What is not kept is
 * gone: the record says that it was there. `outlasts(ms)` is how long a record lives that may live as long as `ms`.
 */
export const RESULT = `
local keepResult, dropResult
do
  local now, isOff
  ${KEPT_VALUES}
  local own, index, count = prefix .. 'result:', prefix .. 'results', prefix .. 'results:bytes'
  dropResult = function(id)
    local bytes = drop(id, own .. id, index, count)
    if kept then kept = kept - bytes end
  end
  keepResult = function(id, value)
    if not now then
      now = (function()${NOW}
        return now end)()
      isOff = redis.call('EXISTS', prefix .. 'results-off') == 1
    end
    return not isOff and keep(id, value, resultMs, resultsBytesMax, own .. id, index, count)
  end
end

local resultRank = {awaited = 1, gone = 2, kept = 3, failed = 4, delivered = 5}
local deliveredHead = '${DELIVERED_HEAD}'

-- As what a stored text was delivered: failed or delivered; nil if it was not.
local function deliveredAs(text)
  if string.sub(text, 1, #deliveredHead) ~= deliveredHead then return nil end
  return string.find(text, '${FAILED_HEAD}') and 'failed' or 'delivered'
end

local function headOf(id)
  return redis.call('GETRANGE', prefix .. 'result:' .. id, 0, ${HEAD_CHARS})
end

local function moveResult(id, known, rs, value)
  local head = headOf(id)
  -- A delivery may have come before the call had a record.
  known = deliveredAs(head) or known
  if (resultRank[rs] or 0) <= (resultRank[known] or 0) then return known end
  if head ~= '' then dropResult(id) end
  if value ~= '' then keepResult(id, value) end
  return rs
end

local function outlasts(ms)
  return string.format('%.0f', math.max(tonumber(ms), resultMs + ${RECORD_OUTLASTS_MS}))
end`;

/**
 * Lua that tells whoever watches a call that its state, progress or result has changed, for a script with a KEYS[1]. The id is an
 * expression of Lua; several ids are separated by spaces.
 */
export function tellChange(id: string): string {
  return `redis.call('PUBLISH', string.match(KEYS[1], '^[^:]*:') .. 'changes', ${id})`;
}

/** Lua with `dropResult(id)` alone, which answers whether there was something, for a script that knows `prefix`. */
export const DROP_RESULT = `${KEPT_VALUES}
local function dropResult(id)
  return drop(id, prefix .. 'result:' .. id, prefix .. 'results', prefix .. 'results:bytes') > 0
end`;

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
