-- Defines functions that keep delivered webhooks (kept.ts). They need `prefix`, which ends with a colon, and `now`. `words`
-- has the output of `encodeKeepArgs`; `call` is the call as stored in its queue.
local keepDelivered, dropKept
do
  --@include "../../redis/kept-values.lua"
  local own, index, count = prefix .. 'kept:', prefix .. 'kept-of:', prefix .. 'kept-bytes:'

  -- Keeps a call. Does nothing while a gateway evicts kept webhooks because Redis is nearly full, or if the call alone
  -- exceeds the limit of its endpoint.
  keepDelivered = function(id, words, call)
    if redis.call('EXISTS', prefix .. 'kept-off') == 1 then return end
    local ms, bytesMax, from, path = string.match(words, '^(%d+) (%d+) ()([^\n]*)')
    local places = {index .. path, count .. path, prefix .. 'kept-endpoints'}
    -- The index has an entry for each kept call of the endpoint. If it has expired, no call is kept, and the count of bytes
    -- starts again at 0.
    if redis.call('EXISTS', index .. path) == 0 then redis.call('DEL', count .. path) end
    ms = tonumber(ms)
    kept = nil -- the count of bytes that `keep` cached may be another endpoint's
    if not keep(id, string.sub(words, from) .. call, ms, bytesMax, own .. id, index .. path, count .. path) then return end
    redis.call('SADD', prefix .. 'kept-endpoints', path)
    for _, place in ipairs(places) do
      if redis.call('PTTL', place) < ms then redis.call('PEXPIRE', place, ms) end
    end
  end

  dropKept = function(id)
    local path = string.match(redis.call('GETRANGE', own .. id, 0, 16383), '^([^\n]*)\n')
    if path then drop(id, own .. id, index .. path, count .. path) end
  end
end
