-- Records that the call failed for good. `keepsResult` says whether the call's job keeps results: 1 or 0, or empty if the
-- producer could not read the call. `problem` may be empty. The reason is stored if the call's job keeps results, or if a
-- paid call could not be read. If there is no record, this creates one.
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
