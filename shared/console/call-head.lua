-- Answers the call that the payment keeps without its body, or an empty text if it keeps none.
--@include "../queue/bodiless.lua"
return bodiless(KEYS.payment, 'call')
