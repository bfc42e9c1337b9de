-- Ends the script if the call has ended. A worker that stalled loses its call to another worker. If it tries to write to the
-- record after the call's end, its write must have no effect.
--@include "../call/change-record.lua"
--@include "./is-ended.lua"
--@include "../call/results/tell-change.lua"
if isEnded(st) then return end
