-- Reads the shared rate without taking the lease for the next read. Returns the value (empty if no value is stored),
-- the start of its read, Redis' time, and whether the caller has the lease (0). Also returns the reason of the last
-- failure (empty without a failure), and the start of that read.
--@include "./stored-value.lua"
return {value, read_at, now, 0, reason, failed_at}
