-- Deletes the oldest blocks of calls that runners accepted, at most 100. `prefix` is the prefix of the blocks' keys.
-- Returns the number of deleted blocks.
--@include "./one-gateway.lua"
--@include "../call-search/history/evict-blocks.lua"
return evictBlocks(KEYS.history, KEYS.size, ARGV.prefix, function() return false end)
