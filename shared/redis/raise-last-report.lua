-- The time of the last report, in a partition that has no reports.
--@include "./last-report.lua"
if refusesData() then return end
--@include "./even-if-full.lua"
--@include "./now.lua"
raiseLastReport(now)
