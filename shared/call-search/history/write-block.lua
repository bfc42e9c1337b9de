-- Writes a block of the history. If the write is repeated, the repeat changes nothing. Leaves out the lines of calls that
-- were forgotten after the producer had added them to the block. `prefix` is the prefix of the blocks' keys.
--@include "../../redis/now.lua"
--@include "./evict-blocks.lua"
--@include "./without-call.lua"
if redis.call('EXISTS', KEYS.off) == 1 then return end
local block = ARGV.text
for _, begin in ipairs(redis.call('ZRANGE', KEYS.forgotten, 0, -1)) do
  block = withoutCall(block, begin)
end
-- Memory that Redis needs for a block in addition to its bytes.
local OVERHEAD_BYTES = 200
local bytes = #ARGV.text + OVERHEAD_BYTES
redis.call('SET', KEYS.block, block, 'PX', ARGV.keptMs)
if redis.call('ZADD', KEYS.index, ARGV.newest, ARGV.calls .. ' ' .. bytes .. ' ' .. ARGV.id) == 1 then
  redis.call('HINCRBY', KEYS.size, 'calls', ARGV.calls)
  redis.call('HINCRBY', KEYS.size, 'bytes', bytes)
end
local callsMax, bytesMax, since = tonumber(ARGV.callsMax), tonumber(ARGV.bytesMax), now - ARGV.keptMs
evictBlocks(KEYS.index, KEYS.size, ARGV.prefix, function(calls, bytes, newest)
  return calls <= callsMax and bytes <= bytesMax and newest >= since
end)
for _, key in ipairs({KEYS.index, KEYS.size}) do redis.call('PEXPIRE', key, ARGV.keptMs + 2 * BLOCK_SPAN_MS) end
