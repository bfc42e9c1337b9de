-- Stores the answer of a call. If the call already has an answer, returns that one and changes nothing; otherwise returns
-- nil. The hash is deleted and written again. A hash that was once large, because of the input of a long call, would
-- otherwise keep an encoding that needs more memory.
--@include "../../shared/redis/now.lua"
--@include "./known-call.lua"
--@include "./remembered.lua"
--@include "../../shared/redis/kept-values.lua"
--@include "./deliver-later.lua"
local id, memory, listed = ARGV.id, ARGV.memoryMs, ARGV.listedMs
if st == 'DONE' then return remembered() end
local startedAt, attempts = unpack(redis.call('HMGET', KEYS.call, 'at', 'attempts'))
local at = startedAt or now
redis.call('DEL', KEYS.call)
redis.call('HSET', KEYS.call, 'st', 'DONE', 'job', ARGV.job, 'at', at, 'in', ARGV.sha256, 'len', ARGV.bytes,
  'took', now - at, 'status', ARGV.status, 'out', ARGV.digest)
if attempts and attempts ~= '0' then redis.call('HSET', KEYS.call, 'attempts', attempts) end
redis.call('PEXPIRE', KEYS.call, memory)
redis.call('ZADD', KEYS.calls, now + listed, id)
redis.call('ZREM', KEYS.due, id)
keep(id, ARGV.toKeep, ARGV.answerMs, ARGV.answersBytesMax, KEYS.answer, KEYS.answers, KEYS.answersBytes)
deliverLater(KEYS.delivery, KEYS.deliveries, id, memory, FIRST.outgoing)
return false
