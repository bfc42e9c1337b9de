local function bullmq()
--@include "bullmq:moveJobFromActiveToWait-9"
end
