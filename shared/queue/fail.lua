local function bullmq()
--@include "bullmq:moveToFinished-14"
end
