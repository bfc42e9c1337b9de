-- Notes the current time for the members, which are alive now, and removes those that were silent for `keptMs`.
--@include "./even-if-full.lua"
--@include "./now.lua"
for i = FIRST.members, #ARGV do redis.call('ZADD', KEYS.seen, now, ARGV[i]) end
redis.call('ZREMRANGEBYSCORE', KEYS.seen, '-inf', now - ARGV.keptMs)
