-- Returns the call of a kept webhook as stored, without its body.
--@include "../queue/bodiless.lua"
--@include "../call/kept/split.lua"
local _, call = splitKept(redis.call('GET', KEYS.kept) or '')
return withoutBody(call)
