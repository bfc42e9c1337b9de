-- A script begins with this if Redis must take it above its `maxmemory` too, because it goes on with something that was taken before.
-- Redis refuses a script only until its first write, and this write needs no memory: no key is the prefix alone.
redis.call('DEL', string.match(KEYS[1], '^[^:]*:'))
