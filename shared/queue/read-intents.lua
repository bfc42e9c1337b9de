-- Returns the operators' intents: their version, the pauses and the settings of endpoints. If the version is `known`,
-- returns only the version.
--
-- `followed` is the version that another partition has copied. If it is higher than the version in this partition, this
-- partition has lost its newest writes. Its remaining data then gets a still higher version, so that the other partitions
-- copy it. If all data is lost, even the layout, the script returns LOST_DATA and changes nothing.
--@include "../redis/even-if-full.lua"
local version = tonumber(redis.call('HGET', KEYS.intents, 'version') or 0)
if version < tonumber(ARGV.followed) then
  if redis.call('EXISTS', KEYS.layout) == 0 then return {LOST_DATA, {}, {}} end
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
