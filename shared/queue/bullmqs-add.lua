-- Defines `newBullmqsAdd()`, which makes a function of KEYS and ARGV that adds a call as BullMQ's own script does. The functions
-- that BullMQ defines at the start of the script are made once for all calls of a batch.
local function newBullmqsAdd()
--@include "bullmq:addStandardJob-9/functions"
return function(KEYS, ARGV)
--@include "bullmq:addStandardJob-9/body"
end
end
