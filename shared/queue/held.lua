-- Defines `heldScore`, the score among the delayed calls of one that its endpoint holds. It is above that of any time, so no such call
-- becomes due.
local heldScore = '9007199254740991'
