-- Answers the call without its body; nothing if it is no longer there.
--@include "./bodiless.lua"
if redis.call('EXISTS', KEYS.call) == 0 then return nil end
return bodiless(KEYS.call, 'data')
