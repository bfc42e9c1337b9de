-- Deletes the oldest blocks of calls that runners took. `prefix` is how the keys of blocks begin. Answers how many blocks went.
--@include "./one-gateway.lua"
--@include "../call-search/history/let-go.lua"
return letGo(KEYS.history, KEYS.size, ARGV.prefix, function() return false end)
