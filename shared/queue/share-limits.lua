-- Sets the limits of a job that apply to all partitions together.
--@include "../redis/even-if-full.lua"
--@include "./set-limits.lua"
setLimits(KEYS.limits, KEYS.taken)
