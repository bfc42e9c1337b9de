-- Defines `newBullmqsTake()`, which makes a function of KEYS and ARGV that takes a call as BullMQ's own script does. The functions
-- that BullMQ defines at the start of the script are made once for all calls of a batch.
local function newBullmqsTake()
--@include "bullmq:moveToActive-11/functions"
return function(KEYS, ARGV)
--@include "bullmq:moveToActive-11/body"
end
end
