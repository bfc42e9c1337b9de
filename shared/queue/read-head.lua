-- Returns the stored call without its body; nothing if the call is gone.
--@include "./bodiless.lua"
if redis.call('EXISTS', KEYS.call) == 0 then return nil end
return bodiless(KEYS.call, 'data')
