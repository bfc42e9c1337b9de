local function bullmq()
--@include "bullmq:reprocessJob-9"
end
