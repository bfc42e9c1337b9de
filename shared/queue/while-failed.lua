-- Ends the script with 0 unless the call is failed, and the failure is the one that the operator saw. Check and change are in
-- one script, so no other change can come between them. Needs KEYS record and failed, and ARGV id and failedAt.
--@include "../call/change-record.lua"
--@include "../call/results/tell-change.lua"
local score = redis.call('ZSCORE', KEYS.failed, ARGV.id)
if not score or tonumber(score) ~= tonumber(ARGV.failedAt) then return 0 end
