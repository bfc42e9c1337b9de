-- Adds a line to the audit log's stream `reads`, which keeps only its newest lines.
--@include "../even-if-full.lua"
redis.call('XADD', KEYS.reads, 'MAXLEN', '~', AUDIT.readsKept, '*', unpack(cjson.decode(ARGV.line)))
