-- Ends the script if the call has ended: a worker that paused and lost its call may write too late. Defines `st`, the
-- state of the call's record, KEYS.record.
--@include "../call/change-record.lua"
--@include "./is-ended.lua"
--@include "../call/results/tell-change.lua"
local st = redis.call('HGET', KEYS.record, 'st')
if isEnded(st) then return end
