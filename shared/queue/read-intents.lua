-- Answers the version of what operators say of whole jobs and endpoints, and unless it is `known`, the pauses and the settings of endpoints.
-- A partition that has followed a higher version, `followed`, shows that this one has lost its newest writes: what is left counts as new. If
-- nothing is left, not even the layout, it answers EMPTIED, and nothing is changed by it.
--@include "../redis/even-if-full.lua"
local version = tonumber(redis.call('HGET', KEYS.intents, 'version') or 0)
if version < tonumber(ARGV.followed) then
  if redis.call('EXISTS', KEYS.layout) == 0 then return {EMPTIED, {}, {}} end
  version = tonumber(ARGV.followed) + 1
  redis.call('HSET', KEYS.intents, 'version', string.format('%.0f', version))
end
if version == tonumber(ARGV.known) then return {version, {}, {}} end
local pauses, settings = {}, {}
for _, gate in ipairs(redis.call('SMEMBERS', KEYS.jobs)) do
  local at, by, reason = unpack(redis.call('HMGET', ARGV.prefix .. ':job:' .. gate, 'paused', 'by', 'reason'))
  if at then pauses[#pauses + 1] = {gate, at, by or '', reason or ''} end
end
local stored = redis.call('HGETALL', KEYS.endpoints)
for i = 1, #stored, 2 do settings[#settings + 1] = {stored[i], stored[i + 1]} end
return {version, pauses, settings}
