-- Returns the fields of a paid call's record, the fields of its payment, and the time. The call itself may be large, so it is
-- left out: instead, the field `call_bytes` has its size.
--@include "../redis/now.lua"
local names = redis.call('HKEYS', KEYS.payment)
local fields = {'call_bytes', redis.call('HSTRLEN', KEYS.payment, 'call')}
for _, name in ipairs(names) do
  if name ~= 'call' then
    fields[#fields + 1] = name
    fields[#fields + 1] = redis.call('HGET', KEYS.payment, name)
  end
end
return {redis.call('HGETALL', KEYS.record), fields, now}
