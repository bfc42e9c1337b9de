-- Stores a report of a process, and adds the batch of counts in it. Returns the number of reloads that operators have
-- requested. Returns nil and writes nothing if the process must not use the data in this Redis (`refusesData`), for
-- example because another deployment owns it. Other checks then end the process, or stop it from taking work.
--
-- A process that gets no answer sends the same batch again, with the same number. Each batch is added only once,
-- because the script compares the number with that of the last batch. It stores the number before it adds the batch. So
-- a batch that fails half way is not added again, and none of its counts is added twice. `counts` are the keys of the
-- batch. `keptMs` is the retention time of the process's record. `isSettled` is true once the process has used the data
-- for a while. Only then does this script raise the deployment's time of the last report.
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
