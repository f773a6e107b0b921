-- ARGV: the token, the value, the rest of its time in ms. 1: what was ours is kept for the rest and
-- says so. 0: nothing was there. Else the keys of others. Where memory is short SET fails, and the
-- expiry alone is set.
local kept = false
for i, key in ipairs(KEYS) do
  local what = at(i)
  if what == ours then
    kept = true
    local set = redis.pcall('SET', key, ARGV[2], 'PX', ARGV[3])
    if set.err then redis.call('PEXPIRE', key, ARGV[3]) end
  elseif what ~= absent then
    held[#held + 1] = what
  end
end
if kept then return 1 end
if #held > 0 then return held end
return 0
