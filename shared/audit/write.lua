-- KEYS audit
-- ARGV ...words
-- The words are those of XADD. Operators need room most when there is none.
--@include "../redis/even-if-full.lua"
redis.call('XADD', KEYS.audit, unpack(ARGV))
