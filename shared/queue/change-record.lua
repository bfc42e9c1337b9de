-- Begins each change of the record of a call that was taken before. Refuses a record that a later release has written.
--@include "../redis/even-if-full.lua"
if tonumber(redis.call('HGET', KEYS.record, 'v') or 1) > VERSIONS.record then return redis.error_reply('NEWER record') end
