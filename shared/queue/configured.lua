--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
redis.call('SET', KEYS.configured, string.format('%.0f', now))
