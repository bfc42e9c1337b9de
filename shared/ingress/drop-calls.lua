-- Deletes at most 100 of the oldest blocks in the history of calls that runners accepted. A block holds many calls.
-- `prefix` is the prefix of the blocks' keys. Returns the number of deleted blocks.
--@include "./one-gateway.lua"
--@include "../call-search/history/evict-blocks.lua"
return evictBlocks(KEYS.history, KEYS.size, ARGV.prefix, function() return false end)
