-- Answers the value, which is empty if there is none, when its read began, Redis' time, whether the caller has the lease, and of a failure
-- the reason, which is empty if there is none, and when that read began.
--@include "./stored-value.lua"
return {value, read_at, now, 0, reason, failed_at}
