-- Answers the deployment's id, its last adoption, its last report, `expects`, and since when payments are unaudited. The id is '' if the
-- data has none. Answers nothing beside another layout, or that of another partition, and leaves such data as it is.
--
-- An empty Redis becomes the deployment's with `beginsEmpty`, and the data of a release without ids with `beginsKept`. A process that finds
-- less than it has seen notes that as `expects`. Then processes that have seen nothing refuse the data too.
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
