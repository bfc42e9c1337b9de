-- Orders a test of an endpoint, and adds a line to the audit log. If no gateway takes the order, it expires after
-- ARGV.ms.
--@include "../redis/audit/add-act.lua"
addAct(ARGV.line)
redis.call('RPUSH', KEYS.tests, ARGV.order)
redis.call('PEXPIRE', KEYS.tests, ARGV.ms)
