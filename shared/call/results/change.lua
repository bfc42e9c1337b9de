-- Begins every change of a result. Reads KEYS.record, and the prefix, id, resultMs and bytesMax of ARGV.
--@include "../change-record.lua"
local prefix, id, resultMs, resultsBytesMax = ARGV.prefix .. ':', ARGV.id, tonumber(ARGV.resultMs), tonumber(ARGV.bytesMax)
--@include "./keep-result.lua"
--@include "./tell-change.lua"
local rs, fg = unpack(redis.call('HMGET', KEYS.record, 'rs', 'fg'))
-- Whether the call takes nothing more of its runner.
local isClosed = fg or st == 'DISCARDED' or st == 'REFUND_PENDING' or st == 'REFUNDED'
