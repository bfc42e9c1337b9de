-- Returns the payment's call without its body, or an empty text if the payment keeps no call.
--@include "../queue/bodiless.lua"
return bodiless(KEYS.payment, 'call')
