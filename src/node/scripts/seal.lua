-- KEYS: the keys, and behind them their counters. ARGV: the token, the fencing token, and each
-- counter as it was told. 1: the counters are at least the fencing token. 0: a key is absent or a
-- counter has changed, and so nothing was done. Else the keys of others.
local count, gone = #KEYS / 2, false
for i = 1, count do
  local what = at(i)
  if what == absent then
    gone = true
  elseif what ~= ours then
    held[#held + 1] = what
  end
end
if #held > 0 then return held end
for i = 1, count do
  gone = gone or tonumber(redis.call('GET', KEYS[count + i]) or 0) ~= tonumber(ARGV[2 + i])
end
if gone then return 0 end
for i = 1, count do
  local most = math.max(tonumber(ARGV[2]), tonumber(ARGV[2 + i]))
  redis.call('SET', KEYS[count + i], string.format('%.0f', most))
  redis.call('PEXPIREAT', KEYS[count + i], string.format('%.0f', most / 1000 + 604800000))
end
return 1
