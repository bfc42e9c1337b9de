-- Returns a page of a sorted set's members between two scores, in Redis' order: by score, then by member. The page begins
-- after `seenMember` with `seenScore`, the last member of the page before. Both are empty for the first page. The script
-- searches for this member's position on each page, because it and members before it may have been removed since.
local low = redis.call('ZCOUNT', KEYS.scored, '-inf', '(' .. ARGV.min)
local high = redis.call('ZCOUNT', KEYS.scored, '-inf', ARGV.max) - 1
local count, highest, score, last = tonumber(ARGV.count), ARGV.highestFirst == '1', ARGV.seenScore, ARGV.seenMember
if last ~= '' then
  local from = redis.call('ZCOUNT', KEYS.scored, '-inf', '(' .. score)
  local to = redis.call('ZCOUNT', KEYS.scored, '-inf', score)
  while from < to do
    local middle = math.floor((from + to) / 2)
    local member = redis.call('ZRANGE', KEYS.scored, middle, middle)[1]
    if member < last or (member == last and not highest) then from = middle + 1 else to = middle end
  end
  if highest then high = math.min(high, from - 1) else low = math.max(low, from) end
end
if low > high then return {} end
if not highest then return redis.call('ZRANGE', KEYS.scored, low, math.min(high, low + count - 1), 'WITHSCORES') end
local cardinality = redis.call('ZCARD', KEYS.scored)
return redis.call('ZREVRANGE', KEYS.scored, cardinality - 1 - high, cardinality - 1 - math.max(low, high - count + 1), 'WITHSCORES')
