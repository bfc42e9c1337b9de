-- Records that the chain has shown this settlement, and assigns its transfer to the call. Returns the state found, or
-- TRANSFER_TAKEN if the transfer pays for another call.
--@include "../call/change-record.lua"
--@include "./take-transfer.lua"
if not st then return nil end
if not takeTransfer(KEYS.transfer, ARGV.id) then return TRANSFER_TAKEN end
redis.call('HSET', KEYS.payment, 'proven', 1, 'settlement', ARGV.settlement)
return st
