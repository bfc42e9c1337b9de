-- Defines `st`, the state of the call. Ends the script with an error if the state is unknown.
local st = redis.call('HGET', KEYS.call, 'st')
if st and st ~= 'RUNNING' and st ~= 'STORED' and st ~= 'DONE' and st ~= 'FAILED' then
  return redis.error_reply('UNREADABLE the call')
end
