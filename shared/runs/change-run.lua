-- Begins each change of a run that was taken before. Refuses a run that a later release has written.
--@include "../redis/even-if-full.lua"
if tonumber(redis.call('HGET', KEYS.run, 'v') or 1) > VERSIONS.run then return redis.error_reply('NEWER run') end
