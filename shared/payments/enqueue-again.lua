-- KEYS record, payment
-- ARGV prefix, job, queue, id
-- Adds the call of a QUEUED payment to its queue again. Answers the state found.
--@include "../redis/even-if-full.lua"
if tonumber(redis.call('HGET', KEYS.record, 'v') or 1) > VERSIONS.record then return redis.error_reply('NEWER record') end
--@include "./add-paid.lua"
local st = redis.call('HGET', KEYS.record, 'st')
local refused = st == 'QUEUED' and addPaid(redis.call('HGET', KEYS.payment, 'settlement'))
return refused or st
