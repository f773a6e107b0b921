-- ARGV: the token, and for an announced release one channel per key. 1: what was ours is gone.
-- 0: nothing was there. Else the keys of others. Publishing comes last and may fail. The message
-- says how many hear it, so that they do not all come back at once.
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
  local channel = ARGV[i + 1]
  if channel then
    local count = redis.pcall('PUBSUB', 'NUMSUB', channel)
    redis.pcall('PUBLISH', channel, token .. ' ' .. (count[2] or 1))
  end
end
if #deleted > 0 then return 1 end
if #held > 0 then return held end
return 0
