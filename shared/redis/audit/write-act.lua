-- Adds a line to the acts. Operators need room most when there is none.
--@include "../even-if-full.lua"
--@include "./add-act.lua"
addAct(ARGV.line)
