-- Adds a run, the record of a bulk operation. Writes the line to the audit log unless it is empty. Returns 1, or 0 if too
-- many runs are waiting or running.
--@include "../../redis/now.lua"
--@include "../../redis/audit/add-act.lua"
if redis.call('ZCARD', KEYS.open) >= OPEN_RUNS_MAX then return 0 end
if ARGV.line ~= '' then addAct(ARGV.line) end
redis.call('HSET', KEYS.run, 'kind', ARGV.kind, 'by', ARGV.by, 'request', ARGV.request, 'st', 'waiting',
  'at', string.format('%.0f', now))
redis.call('ZADD', KEYS.runs, now, ARGV.id)
redis.call('ZADD', KEYS.open, now, ARGV.id)
local over = redis.call('ZCARD', KEYS.runs) - RUNS_KEPT
for _, id in ipairs(over > 0 and redis.call('ZRANGE', KEYS.runs, 0, over + OPEN_RUNS_MAX) or {}) do
  if over > 0 and not redis.call('ZSCORE', KEYS.open, id) then
    redis.call('ZREM', KEYS.runs, id)
    redis.call('DEL', ARGV.prefix .. ':run:' .. id)
    over = over - 1
  end
end
return 1
