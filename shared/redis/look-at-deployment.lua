-- Reads to which deployment the data belongs, and how new it is. Returns the id ('' if the data has none), the times of the
-- last adoption and the last report, `expects`, and `unaudited` (adopt.lua). If the data belongs to another partition, or has
-- another layout and no id, returns nothing and changes nothing.
--
-- `expects` is the time of a newer report that a process has seen but the data lacks, or 0. If the data is older than what
-- this process has seen, the script sets `expects` to `seenAt`. Other processes, even those that have seen no data yet, then
-- refuse the data too.
--
-- With `beginsEmpty`, the script assigns an empty Redis to the deployment. With `beginsKept`, it assigns the data of a
-- release that had no ids.
--@include "./even-if-full.lua"
--@include "./now.lua"
--@include "./older.lua"
local layout = redis.pcall('GET', KEYS.layout)
local isString = type(layout) == 'string'
local isOurs = isString and string.find(layout, '"layout":' .. LAYOUT .. '[,}]')
if isOurs and not string.find(layout, ARGV.place, 1, true) then return nil end
local id, adopted, at, expects, unaudited =
  unpack(redis.call('HMGET', KEYS.deployment, 'id', 'adopted', 'at', 'expects', 'unaudited'))
if not id then
  if layout and not isOurs then return nil end
  if (isString and ARGV.beginsKept or ARGV.beginsEmpty) == '1' then
    at = now
    redis.call('HSET', KEYS.deployment, 'id', ARGV.id, 'at', at)
  elseif ARGV.seenAt == '0' then
    return {'', 0, 0, 0}
  else
    redis.call('HSET', KEYS.deployment, 'id', ARGV.id)
  end
  id = ARGV.id
end
adopted, at, expects = tonumber(adopted or 0), tonumber(at or 0), tonumber(expects or 0)
if id == ARGV.id and expects < tonumber(ARGV.seenAt) and isOlder(adopted, at) then
  expects = tonumber(ARGV.seenAt)
  redis.call('HSET', KEYS.deployment, 'expects', expects)
end
return {id, adopted, at, expects, unaudited}
