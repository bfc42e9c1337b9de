-- Ends the script with 0 if the call is no longer failed, or has failed again since the operator saw it (`failedAt`). The
-- including script then makes the change, so no other change can come between check and change. Needs KEYS record and failed,
-- and ARGV id and failedAt.
--@include "../call/change-record.lua"
--@include "../call/results/tell-change.lua"
local score = redis.call('ZSCORE', KEYS.failed, ARGV.id)
if not score or tonumber(score) ~= tonumber(ARGV.failedAt) then return 0 end
