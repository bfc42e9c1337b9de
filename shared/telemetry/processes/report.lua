-- `counts` are the keys of the batch, and `keptMs` is how long the record with these fields is kept. Nothing is told where another layout
-- is: the process ends by that, or takes nothing more. Data that the process refuses gets no report either (shared/redis/deployment.ts). A
-- process that has used the data for a while (`isSettled`) raises the time of the last report. A batch that was counted before is not counted again. It is
-- noted before it is counted, so that one which fails half way is not either. Answers how many reloads operators have asked for.
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
