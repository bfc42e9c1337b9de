-- Returns the calls in flight of a queue that this worker took last, each with its id, lock token and number of takes. The
-- token is empty if the lock has expired. `prefix` is the prefix of the queue's keys.
local own = {}
local tokenPrefix = ARGV.worker .. ':'
for _, id in ipairs(redis.call('LRANGE', KEYS.active, 0, -1)) do
  local job = ARGV.prefix .. id
  local token = redis.call('GET', job .. ':lock')
  local isOwn
  if token then isOwn = string.sub(token, 1, #tokenPrefix) == tokenPrefix
  else isOwn = redis.call('HGET', job, 'pb') == ARGV.worker end
  if isOwn then own[#own + 1] = {id, token or '', redis.call('HGET', job, 'ats') or ''} end
end
return own
