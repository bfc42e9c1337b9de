--@include "../../redis/even-if-full.lua"
--@include "./add-counted.lua"
addCounted(cjson.decode(ARGV.batch), FIRST.counts)
