-- Beginning of the scripts with which a process changes a run that it holds. Ends the script with 0 if another
-- process holds the run. Stores the progress unless it is empty.
--@include "../../redis/even-if-full.lua"
--@include "../../redis/now.lua"
if redis.call('HGET', KEYS.run, 'holder') ~= ARGV.holder then return 0 end
if ARGV.progress ~= '' then redis.call('HSET', KEYS.run, 'progress', ARGV.progress) end
