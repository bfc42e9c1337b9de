-- Defines `isDue(delayed)`: whether a delayed call's time has come by `now`; and `past`, the highest score of such
-- calls. BullMQ's score of one holds its time above 12 bits of a counter, and BullMQ moves those that are due only
-- when somebody fetches.
local past = string.format('%.0f', (now + 1) * 0x1000 - 1)
local function isDue(delayed) return redis.call('ZCOUNT', delayed, '-inf', past) > 0 end
