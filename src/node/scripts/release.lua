-- ARGV: the token, and for an announced release one channel per key. 1: what was ours is gone.
-- 0: nothing was there. Else the keys of others. Publishing comes last and may fail.
local deleted = {}
for i, key in ipairs(KEYS) do
  local what = at(i)
  if what == ours then
    redis.call('DEL', key)
    deleted[#deleted + 1] = i
  elseif what ~= absent then
    held[#held + 1] = what
  end
end
for _, i in ipairs(deleted) do
  if ARGV[i + 1] then redis.pcall('PUBLISH', ARGV[i + 1], token) end
end
if #deleted > 0 then return 1 end
if #held > 0 then return held end
return 0
