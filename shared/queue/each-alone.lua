-- Defines `eachAlone(does, first, width)`, which handles all items of a batch and ends the batch. Each item is `width`
-- arguments of ARGV, from index `first` on. The function `does` is called for each item, and its answers are returned. An
-- error of one item does not affect the others. If Redis has become a read-only replica, the whole batch fails with READONLY,
-- which makes the client look for the new master.
local function eachAlone(does, first, width)
  local answers = {}
  for i = first, #ARGV, width do
    local ok, answer = pcall(does, unpack(ARGV, i, i + width - 1))
    if not ok then
      local reason = type(answer) == 'table' and answer.err or tostring(answer)
      if string.find(reason, '^-?READONLY') then return redis.error_reply(reason) end
      answer = FAILED_ALONE .. reason
    end
    answers[#answers + 1] = answer
  end
  endBatch()
  return answers
end
