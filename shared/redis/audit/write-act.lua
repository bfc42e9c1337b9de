-- Adds a line to the acts. A full Redis accepts it too, because that is when operators must act.
--@include "../even-if-full.lua"
--@include "./add-act.lua"
addAct(ARGV.line)
