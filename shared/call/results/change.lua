-- Common start of the scripts that store a runner's delivery or its progress. Reads the call's record, and defines functions
-- to change the result. Needs KEYS.record, and the arguments `prefix`, `id`, `resultMs` and `bytesMax`.
--@include "../change-record.lua"
local prefix, id, resultMs, resultsBytesMax = ARGV.prefix .. ':', ARGV.id, tonumber(ARGV.resultMs), tonumber(ARGV.bytesMax)
--@include "./keep-result.lua"
--@include "./tell-change.lua"
local rs, fg = unpack(redis.call('HMGET', KEYS.record, 'rs', 'fg'))
-- True if the call no longer accepts a result or progress from its runner.
local isClosed = fg or st == 'DISCARDED' or st == 'REFUND_PENDING' or st == 'REFUNDED'
