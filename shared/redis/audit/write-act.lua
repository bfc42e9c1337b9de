-- Adds a line to the acts. A full Redis accepts the line too, because operators must act while Redis is full.
--@include "../even-if-full.lua"
--@include "./add-act.lua"
addAct(ARGV.line)
