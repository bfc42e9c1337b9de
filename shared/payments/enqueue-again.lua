-- Adds the call of a QUEUED payment to its queue again, because it is missing there. Attempts are counted on from the number
-- in the call's attempts log. Returns the state found.
--@include "../call/change-record.lua"
--@include "./add-paid.lua"
local refused = st == 'QUEUED' and addPaid(redis.call('HGET', KEYS.payment, 'settlement'))
if st == 'QUEUED' and not refused then
  local newest = redis.call('LINDEX', KEYS.attempts, -1)
  local taken = newest and cjson.decode(newest).taken
  if taken then redis.call('HSETNX', KEYS.job, 'ats', string.format('%.0f', taken)) end
end
return refused or st
