-- Lists up to `count` calls of a queue in each state. Returns whether there are more, and a row for each call: id, state,
-- attempts and two times. The first time is when the call was queued or last replayed. The second is when it was last taken,
-- or '0'.
--@include "./held.lua"
local q, count = ARGV.prefix .. ':' .. ARGV.queue .. ':', tonumber(ARGV.count)
local rows, isCut = {}, 0
local function add(state, ids)
  if #ids > count then isCut = 1 end
  for i = 1, math.min(#ids, count) do
    local job = redis.call('HMGET', q .. ids[i], 'timestamp', 'atm', 'processedOn')
    if job[1] then rows[#rows + 1] = {ids[i], state, job[2] or '0', job[1], job[3] or '0'} end
  end
end
add('active', redis.call('LRANGE', q .. 'active', 0, count))
add('waiting', redis.call('LRANGE', q .. 'wait', 0, count))
add('delayed', redis.call('ZREVRANGEBYSCORE', q .. 'delayed', '(' .. heldScore, '-inf', 'LIMIT', 0, count + 1))
add('held', redis.call('ZRANGEBYSCORE', q .. 'delayed', heldScore, '+inf', 'LIMIT', 0, count + 1))
return {isCut, rows}
