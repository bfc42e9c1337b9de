import type { Keys } from "../redis/keys.ts";
import { VERSIONS } from "../redis/version.ts";
import { bucketStart, NEWEST, STEPS, SUBJECTS_MAX } from "./buckets.ts";
import type { Counted } from "./series.ts";

/** How long what was earned on a day is known. */
export const EARNED_KEPT_MS = 90 * 86_400_000;

/** A bucket that is whole stays so until nobody reads it any more. */
const TTL = (step: keyof typeof STEPS) => STEPS[step].keptMs + 2 * STEPS[step].ms;

/**
 * Lua: `addCounted(batch, first)` adds what a process has counted, as `toBatches` makes it; the batch's keys are the KEYS from `first` on.
 * What a later release has written in is left alone: that is then not counted.
 */
export const ADD_COUNTED = `
local function place(key, name, pattern, size)
  local found = redis.call('HGET', key, name)
  if found or size <= ${SUBJECTS_MAX} then return name, found end
  local group = string.match(name, pattern)
  if not group then return name, found end
  return group .. '*', redis.call('HGET', key, group .. '*')
end

local function isNewer(key) return tonumber(redis.call('HGET', key, 'v') or 1) > ${VERSIONS.series} end

local function addCounts(key, ttl, subjects)
  if isNewer(key) then return end
  redis.call('HSET', key, 'v', ${VERSIONS.series})
  redis.call('PEXPIRE', key, ttl)
  for wanted, added in pairs(subjects) do
    local subject, found = place(key, wanted, '^[^/]*/', redis.call('HLEN', key))
    local counts = found and cjson.decode(found) or {}
    for name, value in pairs(added) do
      local known = counts[name] or 0
      counts[name] = string.sub(name, 1, ${NEWEST.length}) == '${NEWEST}' and math.max(known, value) or known + value
    end
    redis.call('HSET', key, subject, cjson.encode(counts))
  end
end

-- The sum of two whole numbers in decimal, of any length.
local function sum(a, b)
  local length = math.max(#a, #b)
  a, b = string.rep('0', length - #a) .. a, string.rep('0', length - #b) .. b
  local digits, carry = {}, 0
  for i = length, 1, -1 do
    local digit = string.byte(a, i) + string.byte(b, i) - 96 + carry
    carry = digit > 9 and 1 or 0
    digits[i] = digit - 10 * carry
  end
  return (carry == 1 and '1' or '') .. table.concat(digits)
end

local function addEarned(key, rows)
  if isNewer(key) then return end
  redis.call('HSET', key, 'v', ${VERSIONS.series})
  redis.call('PEXPIRE', key, ${EARNED_KEPT_MS})
  for wanted, added in pairs(rows) do
    local name, found = place(key, wanted, '^[^ ]* [^ ]* ', redis.call('HLEN', key))
    local payments, amount = string.match(found or '0 0', '^(%d+) (%d+)$')
    redis.call('HSET', key, name, sum(payments, added[1]) .. ' ' .. sum(amount, added[2]))
  end
end

local function addCounted(batch, first)
  for _, bucket in ipairs(batch.buckets) do
    addCounts(KEYS[first + bucket.fine], ${TTL("fine")}, bucket.subjects)
    addCounts(KEYS[first + bucket.coarse], ${TTL("coarse")}, bucket.subjects)
  end
  for _, day in ipairs(batch.days) do addEarned(KEYS[first + day.key], day.rows) end
end`;

/** Redis does nothing else while it adds a batch: half a millisecond with so many subjects or rows. */
const BATCH_MAX = 50;

export type Batch = { keys: readonly string[]; json: string };

/** What was counted as ADD_COUNTED takes it: keys, and JSON that names them by their place. */
export function toBatches({ buckets, earned }: Counted, keys: Keys): Batch[] {
  const subjects = [...buckets].flatMap(([start, counts]) =>
    [...counts].map(([subject, added]) => ({ start, subject, added })),
  );
  const rows = [...earned].flatMap(([day, ofDay]) => [...ofDay].map(([row, added]) => ({ day, row, added })));
  return [
    ...inChunks(subjects).map((some) => toBatch(keys, { subjects: some, rows: [] })),
    ...inChunks(rows).map((some) => toBatch(keys, { subjects: [], rows: some })),
  ];
}

function inChunks<Item>(items: readonly Item[]): Item[][] {
  const count = Math.ceil(items.length / BATCH_MAX);
  return Array.from({ length: count }, (_, i) => items.slice(i * BATCH_MAX, (i + 1) * BATCH_MAX));
}

type Chunk = {
  subjects: readonly { start: number; subject: string; added: object }[];
  rows: readonly { day: string; row: string; added: { payments: number; amount: bigint } }[];
};

function toBatch(keys: Keys, { subjects, rows }: Chunk): Batch {
  const touched: string[] = [];
  const placeOf = (key: string): number => touched.push(key) - 1;
  const starts = new Set(subjects.map(({ start }) => start));
  const days = new Set(rows.map(({ day }) => day));
  const batch = {
    buckets: [...starts].map((start) => ({
      fine: placeOf(keys.series("fine", start)),
      coarse: placeOf(keys.series("coarse", bucketStart("coarse", start))),
      subjects: Object.fromEntries(
        subjects.flatMap((each) => (each.start === start ? [[each.subject, each.added]] : [])),
      ),
    })),
    days: [...days].map((day) => ({
      key: placeOf(keys.earned(day)),
      rows: Object.fromEntries(
        rows.flatMap(({ added, ...each }) =>
          each.day === day ? [[each.row, [String(added.payments), String(added.amount)]]] : [],
        ),
      ),
    })),
  };
  return { keys: touched, json: JSON.stringify(batch) };
}
