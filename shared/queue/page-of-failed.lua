-- A page of a queue's failed calls, in Redis' order: by score, then by id. It begins beyond the call seen last, whose
-- score and id are empty for the first page. That call may have left meanwhile, as may any number of calls before it,
-- also among those that failed in the same millisecond. So its place is searched for, and no position is remembered.
local low = redis.call('ZCOUNT', KEYS.failed, '-inf', '(' .. ARGV.since)
local high = redis.call('ZCOUNT', KEYS.failed, '-inf', ARGV.upTo) - 1
local count, newest, score, last = tonumber(ARGV.count), ARGV.newestFirst == '1', ARGV.seenAt, ARGV.seenId
if last ~= '' then
  local from = redis.call('ZCOUNT', KEYS.failed, '-inf', '(' .. score)
  local to = redis.call('ZCOUNT', KEYS.failed, '-inf', score)
  while from < to do
    local middle = math.floor((from + to) / 2)
    local id = redis.call('ZRANGE', KEYS.failed, middle, middle)[1]
    if id < last or (id == last and not newest) then from = middle + 1 else to = middle end
  end
  if newest then high = math.min(high, from - 1) else low = math.max(low, from) end
end
if low > high then return {} end
if not newest then return redis.call('ZRANGE', KEYS.failed, low, math.min(high, low + count - 1), 'WITHSCORES') end
local cardinality = redis.call('ZCARD', KEYS.failed)
return redis.call('ZREVRANGE', KEYS.failed, cardinality - 1 - high, cardinality - 1 - math.max(low, high - count + 1), 'WITHSCORES')
