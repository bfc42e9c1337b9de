-- Returns the record's fields, the payment's fields, and the time. The field `call_bytes`, the size of the call,
-- replaces the call.
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
