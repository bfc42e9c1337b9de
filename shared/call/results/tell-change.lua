-- Publishes the id of a call whose state, progress or result has changed, so that processes that watch the call read it again
-- (changes.ts). Several ids are separated by spaces.
local function publishChange(ids)
  redis.call('PUBLISH', string.match(KEYS[1], '^[^:]*:') .. 'changes', ids)
end

local function changeState(record, id, st, at)
  redis.call('HSET', record, 'st', st, 'at', at)
  publishChange(id)
end
