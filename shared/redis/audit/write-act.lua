-- Adds a line to the audit log's stream of acts. Even a full Redis accepts the line, because operators must act while Redis
-- is full.
--@include "../even-if-full.lua"
--@include "./add-act.lua"
addAct(ARGV.line)
