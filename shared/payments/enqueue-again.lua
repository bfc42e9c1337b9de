-- KEYS record, payment
-- ARGV prefix, job, queue, id
-- Adds the call of a QUEUED payment to its queue again. Answers the state found.
--@include "../queue/change-record.lua"
--@include "./add-paid.lua"
local st = redis.call('HGET', KEYS.record, 'st')
local refused = st == 'QUEUED' and addPaid(redis.call('HGET', KEYS.payment, 'settlement'))
return refused or st
