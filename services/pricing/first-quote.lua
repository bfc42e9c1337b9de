-- Returns the encoded quote (`header`) that a request with this proof of work got first. `content` is the hash of the request. If
-- no quote is stored for the request, or if the stored one equals `replaced`, which has nearly expired, stores and returns
-- `header`. Returns nothing if too many different requests have used the proof, from this address or in total.
local quote, address = 'quote ' .. ARGV.content, 'of ' .. ARGV.address
local first = redis.call('HGET', KEYS.proof, quote)
if first and first ~= ARGV.replaced then return first end
if not first then
  local counts = redis.call('HMGET', KEYS.proof, 'quotes', address)
  if tonumber(counts[1] or 0) >= CONTENTS_MAX or tonumber(counts[2] or 0) >= CONTENTS_OF_ADDRESS_MAX then return false end
  redis.call('HINCRBY', KEYS.proof, 'quotes', 1)
  redis.call('HINCRBY', KEYS.proof, address, 1)
end
redis.call('HSET', KEYS.proof, quote, ARGV.header)
if redis.call('PTTL', KEYS.proof) < 0 then redis.call('PEXPIRE', KEYS.proof, ARGV.keepMs) end
return ARGV.header
