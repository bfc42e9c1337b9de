-- Returns the fields of a paid call's record, the fields of its payment, and the time.
--@include "../redis/now.lua"
return {redis.call('HGETALL', KEYS.record), redis.call('HGETALL', KEYS.payment), now}
