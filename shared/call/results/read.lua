-- Returns the result, the progress and the record's fields.
--@include "./read-record.lua"
return {redis.call('GET', KEYS.result), redis.call('GET', KEYS.progress), unpack(record, 1, 6)}
