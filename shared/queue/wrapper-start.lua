-- Common start of our scripts around BullMQ's. Defines the queue `q` of frame.lua, and `words`, the ARGV of BullMQ's script.
--@include "../redis/even-if-full.lua"
local prefix = ARGV.prefix .. ':'
--@include "./frame.lua"
local q = queueOf(ARGV.gate, ARGV.queue)
local words = {unpack(ARGV, FIRST.words)}
