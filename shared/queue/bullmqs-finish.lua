-- Defines `newBullmqsFinish()`, which makes a function of KEYS and ARGV that ends a call and takes the next one as BullMQ's own script does. The functions
-- that BullMQ defines at the start of the script are made once for all calls of a batch.
local function newBullmqsFinish()
--@include "bullmq:moveToFinished-14/functions"
return function(KEYS, ARGV)
--@include "bullmq:moveToFinished-14/body"
end
end
