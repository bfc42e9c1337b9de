-- The call failed for good. `keepsResult` is 1 or 0, or empty if it is not known whether the call's job keeps results;
-- `problem` may be empty. Why the call failed is noted if its job keeps results, and of a paid call for which that is
-- not known. The record appears for it.
--@include "./unless-ended.lua"
local tells = ARGV.keepsResult == '1' or (ARGV.keepsResult == '' and redis.call('HEXISTS', KEYS.record, 'rt') == 1)
if st or tells then
  changeState(KEYS.record, ARGV.id, 'FAILED', ARGV.now)
  redis.call('PERSIST', KEYS.record)
end
if tells then
  redis.call('HSET', KEYS.record, 'fc', ARGV.code)
  if ARGV.problem == '' then redis.call('HDEL', KEYS.record, 'fp') else redis.call('HSET', KEYS.record, 'fp', ARGV.problem) end
end
redis.call('ZREM', KEYS.since, ARGV.id)
