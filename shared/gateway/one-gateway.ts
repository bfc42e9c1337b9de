import { EVEN_IF_FULL } from "../redis/script.ts";

/** How long the key stays after its gateway has looked at Redis. */
export const HELD_MS = 3000;

/**
 * Lua that makes this gateway the one that gives something up while Redis is nearly full, if no other is; its key tells all writers to
 * keep no more of it. KEYS[1] that key. ARGV this gateway, how long it is the one. Ends the script with false if another gateway is.
 */
export const HOLD = `${EVEN_IF_FULL}
local by = redis.call('GET', KEYS[1])
if by and by ~= ARGV[1] then return false end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`;
