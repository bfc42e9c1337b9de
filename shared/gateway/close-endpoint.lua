-- KEYS opened
-- Answers by, and whether a secret is lost; nothing if the endpoint is not open.
if tonumber(redis.call('HGET', KEYS.opened, 'v') or 1) > VERSIONS.opened then return redis.error_reply('NEWER opened') end
local by, had_secret = redis.call('HGET', KEYS.opened, 'by'), redis.call('HEXISTS', KEYS.opened, 'secret')
if redis.call('DEL', KEYS.opened) == 0 then return nil end
return {by, had_secret}
