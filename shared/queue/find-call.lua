-- Returns the queue and the state of the call. `first` is the queue that probably holds it.
--@include "./place-of.lua"
local prefix = ARGV.prefix .. ':'
return placeIn(prefix, ARGV.first, ARGV.id) or placeOf(KEYS.registry, prefix, ARGV.id)
