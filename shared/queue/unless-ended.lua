-- Ends the script if the call has ended. A worker that stalled, and so lost its call, may try to write after that.
--@include "../call/change-record.lua"
--@include "./is-ended.lua"
--@include "../call/results/tell-change.lua"
if isEnded(st) then return end
