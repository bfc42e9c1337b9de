-- Defines `eachJob(does)`, which calls the function `does` for each item of a batch, with the keys of the item's job and the
-- item's arguments. It returns the answers.
local function eachJob(does)
  local answers = {}
  for i = 0, #KEYS / WIDTH.jobs - 1 do
    local words = {unpack(KEYS, WIDTH.jobs * i + FIRST.jobs, WIDTH.jobs * (i + 1))}
    for at = 0, WIDTH.items - 1 do words[#words + 1] = ARGV[WIDTH.items * i + FIRST.items + at] end
    answers[#answers + 1] = does(unpack(words))
  end
  return answers
end
