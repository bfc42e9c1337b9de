--@include "./change.lua"
if isClosed then return 'ended' end
if deliveredAs(headOf(id)) or (resultRank[rs] or 0) > 1 then return 'ended' end
dropResult(id .. ':progress')
keepResult(id .. ':progress', ARGV.progress)
publishChange(id)
return 'stored'
