-- Raises the time of the last report in a partition other than 0. There it must be raised separately, because processes send
-- their reports only to partition 0.
--@include "./last-report.lua"
if refusesData() then return end
--@include "./even-if-full.lua"
--@include "./now.lua"
raiseLastReport(now)
