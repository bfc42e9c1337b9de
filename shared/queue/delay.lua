local function bullmq()
--@include "bullmq:moveToDelayed-11"
end
