-- Reads all that is kept of a call, except the bytes of its body and result. `callbacks` are the callbacks that the call may
-- have, in the order of `callbackIds`.
--
-- Returns, in this order:
--   - The fields of the record, and those of the payment (read-without-call.lua).
--   - The arguments of `toRead` (the beginning of the result, the progress, and fields of the record); then the result's size.
--   - The call's log of attempts.
--   - The call's place in a queue, and its score if it is delayed.
--   - The stored call without its body, and the size of the whole stored call.
--   - For each callback: the state and time in its record, its place, when it was queued, and the newest entry of its log.
--   - The time by Redis' clock.
--@include "../queue/place-of.lua"
--@include "../queue/bodiless.lua"
--@include "../call/kept/split.lua"
--@include "../call/results/read-record.lua"
local prefix = ARGV.prefix .. ':'
local both = (function()
--@include "../payments/read-without-call.lua"
end)()
local result = redis.call('GETRANGE', KEYS.result, 0, HEAD_BYTES_MAX - 1)
local read = {result ~= '' and result, redis.call('GET', KEYS.progress), unpack(record, 1, 6)}
local place, score, stored, size = placeOf(KEYS.registry, prefix, ARGV.id), false, '', 0
if place then
  local key = prefix .. place[1] .. ':' .. ARGV.id
  score = redis.call('ZSCORE', prefix .. place[1] .. ':delayed', ARGV.id)
  stored, size = bodiless(key, 'data'), redis.call('HSTRLEN', key, 'data')
else
  stored, size = bodiless(KEYS.payment, 'call'), redis.call('HSTRLEN', KEYS.payment, 'call')
end
local bytes = redis.call('STRLEN', KEYS.result)
local kept = redis.call('GET', KEYS.kept)
if kept then
  local answer, call = splitKept(kept)
  if size == 0 then stored, size = withoutBody(call), #call end
  if bytes == 0 and answer ~= '' then read[1], bytes = string.sub(answer, 1, HEAD_BYTES_MAX), #answer end
end
local callbacks = {}
for i = FIRST.callbacks, #KEYS, WIDTH.callbacks do
  local own, attempts, id = KEYS[i], KEYS[i + 1], ARGV[FIRST.callbackIds + #callbacks]
  local its = redis.call('HMGET', own, 'st', 'at')
  local at = placeOf(KEYS.registry, prefix, id)
  its[3] = at and at[2] or false
  its[4] = at and redis.call('HGET', prefix .. at[1] .. ':' .. id, 'timestamp') or false
  its[5] = redis.call('LINDEX', attempts, -1)
  callbacks[#callbacks + 1] = its
end
return {both[1], both[2], read, bytes, redis.call('LRANGE', KEYS.attempts, 0, -1), place or false, score, stored, size, callbacks, both[3]}
