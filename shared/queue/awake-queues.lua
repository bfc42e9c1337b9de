-- Defines `awakeQueues(first)`: it adds each registered queue in ARGV, from index `first` on, to the sorted set `wake`.
--@include "./awake.lua"
local function awakeQueues(first)
  for i = first, #ARGV do
    if redis.call('SISMEMBER', KEYS.registry, ARGV[i]) == 1 then awake(KEYS.wake, ARGV[i]) end
  end
end
