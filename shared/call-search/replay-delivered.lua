-- Queues the call of a kept webhook again, under another id. The body is copied from the kept call. `before` and `after` are
-- the JSON of the new call before and after its body. `line` is the line of the audit log. Returns NEW; KNOWN if the new
-- call was queued before; or GONE if the webhook is no longer kept. The call is added before its record is written, so that
-- a record with QUEUED always has its call.
local prefix = ARGV.prefix .. ':'
--@include "../queue/add.lua"
--@include "../queue/bodiless.lua"
--@include "../call/kept/split.lua"
--@include "../redis/audit/add-act.lua"
if redis.call('EXISTS', KEYS.record) == 1 then return 'KNOWN' end
local _, call = splitKept(redis.call('GET', KEYS.kept) or '')
local opens, closes = bodyIn(call)
if not closes then return 'GONE' end
add(ARGV.gate, ARGV.queue, ARGV.id, ARGV.before .. string.sub(call, opens + 1, closes - 1) .. ARGV.after)
endBatch()
redis.call('HSET', KEYS.record, 'st', 'QUEUED', 'bh', ARGV.sha256, 'w', ARGV.windowMs, 'at', now, 'by', ARGV.id, 'jb', ARGV.gate)
addAct(ARGV.line)
return 'NEW'
