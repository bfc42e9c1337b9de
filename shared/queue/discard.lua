local function bullmq()
--@include "bullmq:removeJob-2"
end
