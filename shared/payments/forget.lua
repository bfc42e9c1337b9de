-- Removes a payment whose record no longer exists from every list. The key of a payer's set of open payments is `openPrefix`
-- and the payer's address.
--@include "../redis/even-if-full.lua"
--@include "./usage.lua"
if redis.call('EXISTS', KEYS.record) == 1 then return end
releaseUsage(KEYS.usage, KEYS.usageBy, ARGV.id)
for _, list in ipairs({KEYS.due, KEYS.payments, KEYS.unresolved, KEYS.inReview, KEYS.disputed, KEYS.discarded}) do redis.call('ZREM', list, ARGV.id) end
local ok, terms = pcall(cjson.decode, redis.call('HGET', KEYS.payment, 'terms') or '')
if ok and type(terms) == 'table' and terms.payer then redis.call('SREM', ARGV.openPrefix .. terms.payer, ARGV.id) end
