-- Implements the generic cell rate algorithm: a token bucket in one number. The key holds the time at which the bucket
-- will be full again, in microseconds of Redis' clock. `one` is the time to gain one token, and `whole` the time to
-- fill the bucket. Returns 0 if a token was taken, otherwise the milliseconds until the next token. After a failover to
-- a replica whose clock is behind, the bucket is at worst empty.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local one, whole = tonumber(ARGV.one), tonumber(ARGV.whole)
local full_at = tonumber(redis.call('GET', KEYS.bucket) or 0)
local used = math.min(math.max(full_at - now, 0), whole) + one
if used > whole then return math.ceil((used - whole) / 1000) end
redis.call('SET', KEYS.bucket, string.format('%.0f', now + used), 'PX', math.ceil(used / 1000))
return 0
