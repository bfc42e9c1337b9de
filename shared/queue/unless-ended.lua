-- Ends the script if the call has ended. A worker that paused and lost its call may write too late.
--@include "../call/change-record.lua"
--@include "./is-ended.lua"
--@include "../call/results/tell-change.lua"
if isEnded(st) then return end
