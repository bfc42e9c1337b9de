-- Defines `eachAlone(does, first, width)`, which ends a batch: it runs a function with each `width` words of ARGV, from the first one on,
-- and returns the answers. What makes one item fail leaves the others alone. On a replica the batch fails as a whole, so that the client
-- looks for the master.
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
