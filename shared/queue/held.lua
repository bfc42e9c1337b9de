-- Defines `heldScore`, the score of held calls among the delayed calls. It is above the score of any time, so a held call
-- never becomes due.
local heldScore = '9007199254740991'
