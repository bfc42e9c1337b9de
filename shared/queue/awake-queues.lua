-- Defines `awakeQueues(first)`, which puts the queues that ARGV names from `first` on into `wake`, if they are registered.
--@include "./awake.lua"
local function awakeQueues(first)
  for i = first, #ARGV do
    if redis.call('SISMEMBER', KEYS.registry, ARGV[i]) == 1 then awake(KEYS.wake, ARGV[i]) end
  end
end
