-- Sets the limits of a job in partition 0, where they apply to all partitions together (limits.ts).
--@include "../redis/even-if-full.lua"
--@include "./set-limits.lua"
setLimits(KEYS.limits, KEYS.taken)
