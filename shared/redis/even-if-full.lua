-- Include this first in a script that Redis must run even above its `maxmemory`, because the script continues work that was
-- accepted before. Redis refuses a script only before its first write, and this write needs no memory. It deletes nothing,
-- because no key is equal to the prefix alone.
redis.call('DEL', string.match(KEYS[1], '^[^:]*:'))
