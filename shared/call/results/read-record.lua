-- Defines `record`, the fields that `toRead` decodes.
local record = redis.call('HMGET', KEYS.record, 'st', 'at', 'rs', 'fc', 'fp', 'fg')
