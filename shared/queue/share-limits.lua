-- Sets the limits that hold over all partitions.
--@include "../redis/even-if-full.lua"
--@include "./set-limits.lua"
setLimits(KEYS.limits, KEYS.taken)
