-- Common start of our scripts that run a script of BullMQ for one queue. Defines this queue as `q` (frame.lua), and `words`,
-- the ARGV for BullMQ's script.
--@include "../redis/even-if-full.lua"
local prefix = ARGV.prefix .. ':'
--@include "./frame.lua"
local q = queueOf(ARGV.gate, ARGV.queue)
local words = {unpack(ARGV, FIRST.words)}
