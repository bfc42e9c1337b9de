-- Returns a stored call without its body, or nil if the call is gone.
--@include "./bodiless.lua"
if redis.call('EXISTS', KEYS.call) == 0 then return nil end
return bodiless(KEYS.call, 'data')
