-- A block that is written again is the same one. The lines of calls that were forgotten meanwhile are left out. `prefix` is how the keys
-- of blocks begin.
--@include "../../redis/now.lua"
--@include "./let-go.lua"
--@include "./without-call.lua"
if redis.call('EXISTS', KEYS.off) == 1 then return end
local block = ARGV.text
for _, begin in ipairs(redis.call('ZRANGE', KEYS.forgotten, 0, -1)) do
  block = withoutCall(block, begin)
end
-- What Redis needs for a block beside its bytes.
local OVERHEAD_BYTES = 200
local bytes = #ARGV.text + OVERHEAD_BYTES
redis.call('SET', KEYS.block, block, 'PX', ARGV.keptMs)
if redis.call('ZADD', KEYS.index, ARGV.newest, ARGV.calls .. ' ' .. bytes .. ' ' .. ARGV.id) == 1 then
  redis.call('HINCRBY', KEYS.size, 'calls', ARGV.calls)
  redis.call('HINCRBY', KEYS.size, 'bytes', bytes)
end
local callsMax, bytesMax, since = tonumber(ARGV.callsMax), tonumber(ARGV.bytesMax), now - ARGV.keptMs
letGo(KEYS.index, KEYS.size, ARGV.prefix, function(calls, bytes, newest)
  return calls <= callsMax and bytes <= bytesMax and newest >= since
end)
for _, key in ipairs({KEYS.index, KEYS.size}) do redis.call('PEXPIRE', key, ARGV.keptMs + 2 * BLOCK_SPAN_MS) end
