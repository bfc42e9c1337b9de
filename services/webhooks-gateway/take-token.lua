-- The generic cell rate algorithm, which is a token bucket in one number. A key holds when its bucket is full again, in microseconds of
-- Redis' clock. `one` is the time that one token takes, and `whole` that of a whole bucket. Answers in how many milliseconds there is a
-- token, and 0 if one was taken. If a change of server set the clock back, a bucket is empty at worst.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local one, whole = tonumber(ARGV.one), tonumber(ARGV.whole)
local full_at = tonumber(redis.call('GET', KEYS.bucket) or 0)
local used = math.min(math.max(full_at - now, 0), whole) + one
if used > whole then return math.ceil((used - whole) / 1000) end
redis.call('SET', KEYS.bucket, string.format('%.0f', now + used), 'PX', math.ceil(used / 1000))
return 0
