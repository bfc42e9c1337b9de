-- Orders a test of an endpoint, with its line in the audit. Without a gateway, the order is gone after ARGV.ms.
--@include "../redis/audit/add-act.lua"
addAct(ARGV.line)
redis.call('RPUSH', KEYS.tests, ARGV.order)
redis.call('PEXPIRE', KEYS.tests, ARGV.ms)
