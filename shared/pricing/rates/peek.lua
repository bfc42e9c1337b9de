-- Reads the shared rate without taking the lease for the next read. Returns the value (empty if no value is stored),
-- the start of its read, Redis' time, and 0, because the caller gets no lease. Also returns the reason of the last
-- failure (empty without a failure), and the start of the failed read.
--@include "./stored-value.lua"
return {value, read_at, now, 0, reason, failed_at}
