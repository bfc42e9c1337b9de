-- Makes `id` the deployment to which this data belongs. If the data belongs to a deployment that is neither `id` nor
-- `replaced`, changes nothing and returns that deployment's id. Stores `unaudited` (unix ms): payments since this time must
-- be audited before jobs are sold again. An earlier time that is already stored is kept. If `unaudited` is '', there are no
-- such payments.
--@include "./even-if-full.lua"
--@include "./now.lua"
--@include "./audit/add-act.lua"
local id, at, expects, unaudited = unpack(redis.call('HMGET', KEYS.deployment, 'id', 'at', 'expects', 'unaudited'))
if id and id ~= ARGV.id and id ~= ARGV.replaced then return id end
if ARGV.line ~= '' then addAct(ARGV.line) end
-- The adoption must count as newer than any report that a process has seen. Redis' clock may have been ahead at such a
-- report, so the current time alone is not enough.
local newest = math.max(now, tonumber(at or 0) + 1, tonumber(expects or 0) + 1)
redis.call('HSET', KEYS.deployment, 'id', ARGV.id, 'adopted', newest, 'at', newest)
redis.call('HDEL', KEYS.deployment, 'expects')
if ARGV.unaudited == '' then redis.call('HDEL', KEYS.deployment, 'unaudited')
elseif not unaudited or tonumber(ARGV.unaudited) < tonumber(unaudited) then
  redis.call('HSET', KEYS.deployment, 'unaudited', ARGV.unaudited)
end
return nil
