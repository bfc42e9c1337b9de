-- Answers the id of the deployment whose data this is, if that is neither `id` nor `replaced`; otherwise writes that `id` uses the data from
-- now on, and answers nothing. From `unaudited` on (unix ms) payments must be audited before jobs are sold; with '' they need not.
--@include "./even-if-full.lua"
--@include "./now.lua"
--@include "./audit/add-act.lua"
local id, at, expects, unaudited = unpack(redis.call('HMGET', KEYS.deployment, 'id', 'at', 'expects', 'unaudited'))
if id and id ~= ARGV.id and id ~= ARGV.replaced then return id end
if ARGV.line ~= '' then addAct(ARGV.line) end
-- Newer than all that a process has seen, even if Redis' clock was ahead then.
local newest = math.max(now, tonumber(at or 0) + 1, tonumber(expects or 0) + 1)
redis.call('HSET', KEYS.deployment, 'id', ARGV.id, 'adopted', newest, 'at', newest)
redis.call('HDEL', KEYS.deployment, 'expects')
if ARGV.unaudited == '' then redis.call('HDEL', KEYS.deployment, 'unaudited')
elseif not unaudited or tonumber(ARGV.unaudited) < tonumber(unaudited) then
  redis.call('HSET', KEYS.deployment, 'unaudited', ARGV.unaudited)
end
return nil
