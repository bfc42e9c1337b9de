-- Adds a line to the reads, of which only the newest are kept.
--@include "../even-if-full.lua"
redis.call('XADD', KEYS.reads, 'MAXLEN', '~', AUDIT.readsKept, '*', unpack(cjson.decode(ARGV.line)))
