-- Defines `isDue(delayed)`, which returns whether a delayed call is due at `now`. Also defines `past`, the highest score of
-- due calls: the lower 12 bits of BullMQ's score are a counter, and the higher bits are the time. BullMQ moves due calls to
-- the waiting calls only when a call is fetched. Until then they are still among the delayed calls.
local past = string.format('%.0f', (now + 1) * 0x1000 - 1)
local function isDue(delayed) return redis.call('ZCOUNT', delayed, '-inf', past) > 0 end
