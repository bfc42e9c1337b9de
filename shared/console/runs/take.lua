-- Takes a run of one of these kinds that no process holds, and makes `holder` its holder. Returns its id and its
-- fields, or nothing. Leaves runs of other kinds to processes that know these kinds.
--@include "../../redis/even-if-full.lua"
--@include "../../redis/now.lua"
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS.open, '-inf', now, 'LIMIT', 0, OPEN_RUNS_MAX)) do
  local key = ARGV.prefix .. ':run:' .. id
  local kind = redis.call('HGET', key, 'kind')
  if not kind then redis.call('ZREM', KEYS.open, id) end
  local isKnown = false
  for i = FIRST.kinds, #ARGV do isKnown = isKnown or ARGV[i] == kind end
  if isKnown then
    redis.call('HSET', key, 'st', 'running', 'holder', ARGV.holder)
    redis.call('ZADD', KEYS.open, now + ARGV.leaseMs, id)
    return {id, redis.call('HGETALL', key)}
  end
end
