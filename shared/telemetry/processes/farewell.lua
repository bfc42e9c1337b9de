--@include "../../redis/even-if-full.lua"
redis.call('DEL', KEYS.process)
redis.call('ZREM', KEYS.processes, ARGV.id)
