-- ARGV: the token, the ttl in ms. 1 and the time: every key lasts at least that long. 0: one is absent. Else
-- the keys of others. All or nothing. PEXPIRE and not SET, which fails when memory is short.
local gone = false
for i in ipairs(KEYS) do
  local what = at(i)
  if what == absent then
    gone = true
  elseif what ~= ours then
    held[#held + 1] = what
  end
end
if #held > 0 then return held end
if gone then return 0 end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[2]) end
end
local now = redis.call('TIME')
return {1, tonumber(now[1]), tonumber(now[2])}
