-- Returns the record's fields, the payment's fields, and the time.
--@include "../redis/now.lua"
return {redis.call('HGETALL', KEYS.record), redis.call('HGETALL', KEYS.payment), now}
