local function bullmq()
--@include "bullmq:moveStalledJobsToWait-9"
end
