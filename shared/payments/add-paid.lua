-- Defines `addPaid(settlement)`, which adds the stored call of a payment to its queue. It also writes the transaction of the
-- settlement into the call's metadata. For that, it changes the first "metadata":{ in the call's JSON. This is safe, because
-- no client controls a field before the metadata (job-call.ts). The including script needs the key `payment` and the
-- arguments `prefix`, `job`, `queue` and `id`. Returns an error if the call cannot be read.
local prefix = ARGV.prefix .. ':'
--@include "../queue/add.lua"
local function addPaid(settlement)
  local call = redis.call('HGET', KEYS.payment, 'call')
  local _, at = string.find(call or '', '"metadata":{', 1, true)
  if not at then return redis.error_reply('UNREADABLE the call of the payment') end
  local transaction = '"' .. X402_TRANSACTION .. '":' .. cjson.encode(cjson.decode(settlement).transaction)
  local comma = string.sub(call, at + 1, at + 1) == '}' and '' or ','
  add(ARGV.job, ARGV.queue, ARGV.id, string.sub(call, 1, at) .. transaction .. comma .. string.sub(call, at + 1))
  endBatch()
end
