-- Include this first in a script that Redis must run even above its `maxmemory`, because the script continues work that was
-- accepted before. Above `maxmemory`, Redis refuses a script at its first write if that command may need memory; later writes
-- are allowed. So this first write is a DEL, which needs none. It deletes nothing, because no key is equal to the prefix
-- alone.
redis.call('DEL', string.match(KEYS[1], '^[^:]*:'))
