-- Answers id and token of each call in the list whose token begins so. `prefix` is how the keys of the queue begin.
local own = {}
for _, id in ipairs(redis.call('LRANGE', KEYS.active, 0, -1)) do
  local token = redis.call('GET', ARGV.prefix .. id .. ':lock')
  if token and string.sub(token, 1, #ARGV.tokenPrefix) == ARGV.tokenPrefix then own[#own + 1] = {id, token} end
end
return own
