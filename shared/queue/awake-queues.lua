-- Defines `awakeQueues(first)`: it adds the queues in ARGV, from index `first` on, to `wake`, if they are registered.
--@include "./awake.lua"
local function awakeQueues(first)
  for i = first, #ARGV do
    if redis.call('SISMEMBER', KEYS.registry, ARGV[i]) == 1 then awake(KEYS.wake, ARGV[i]) end
  end
end
