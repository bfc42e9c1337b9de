-- Defines `record`, the fields that `toRead` knows.
local record = redis.call('HMGET', KEYS.record, 'v', 'st', 'at', 'rs', 'fc', 'fp', 'fg')
