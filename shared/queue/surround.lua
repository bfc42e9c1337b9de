-- What stands before one of BullMQ's scripts in ours: the queue `q` of frame.lua, and `words`, BullMQ's own ARGV.
--@include "../redis/even-if-full.lua"
local prefix = ARGV.prefix .. ':'
--@include "./frame.lua"
local q = queueOf(ARGV.gate, ARGV.queue)
local words = {unpack(ARGV, FIRST.words)}
