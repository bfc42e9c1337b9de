-- Stores a report and adds its batch of counts. Returns the number of reloads that operators have requested. Returns nil if
-- the process must not use the data in this Redis (`refusesData`): nothing is written, and the process ends or stops taking
-- work.
--
-- A batch is added only once. Its number is stored first, so that a batch that fails half way is not repeated either.
-- `counts` are the keys of the batch. `keptMs` is the retention time of the process's record. `isSettled` is true once the
-- process has used the data for a while. Only then does this script raise the deployment's time of the last report.
--@include "../../redis/last-report.lua"
if refusesData() then return nil end
--@include "../../redis/even-if-full.lua"
--@include "../../redis/now.lua"
--@include "../series/add-counted.lua"
raiseLastReport(now)
local last = redis.call('HGET', KEYS.process, 'batch')
redis.call('HSET', KEYS.process, 'batch', ARGV.number, unpack(ARGV, FIRST.fields))
redis.call('PEXPIRE', KEYS.process, ARGV.keptMs)
redis.call('ZADD', KEYS.processes, now, ARGV.id)
redis.call('ZREMRANGEBYSCORE', KEYS.processes, '-inf', now - ARGV.keptMs)
if last ~= ARGV.number then addCounted(cjson.decode(ARGV.batch), FIRST.counts) end
return redis.call('GET', KEYS.reloads) or '0'
