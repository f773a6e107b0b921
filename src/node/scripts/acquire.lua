-- ARGV: the token, the value, the ttl in ms. 1: every key is ours now; 2: and was before.
-- Else what is in the way, and nothing was set. A key of our own is raised and never lowered: an older answer may count on it.
local free, own = {}, {}
for i, key in ipairs(KEYS) do
  local what = at(i)
  if what == absent then
    free[#free + 1] = key
  elseif what == ours then
    own[#own + 1] = key
  else
    held[#held + 1] = what
  end
end
if #held > 0 then return held end
for _, key in ipairs(free) do
  local lack = lacking(key)
  if lack then return lack end
end
for _, key in ipairs(free) do
  redis.call('SET', key, ARGV[2], 'PX', ARGV[3])
end
for _, key in ipairs(own) do
  if redis.call('PTTL', key) < tonumber(ARGV[3]) then redis.call('PEXPIRE', key, ARGV[3]) end
end
return #free == 0 and 2 or 1
