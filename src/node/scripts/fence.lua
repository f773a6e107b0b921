-- As acquire, with the keys' counters behind them in KEYS. ARGV[4]: what the counters are to be:
-- 'next', and then they follow the answer; or at least a number.
local count, next = #KEYS / 2, ARGV[4] == 'next'
local free, own = {}, {}
for i = 1, count do
  local what = at(i)
  if what == absent then
    free[#free + 1] = KEYS[i]
  elseif what == ours then
    own[#own + 1] = KEYS[i]
  else
    held[#held + 1] = what
  end
end
if #held > 0 then return held end
for _, key in ipairs(free) do
  local lack = lacking(key)
  if lack then return lack end
end
local now, counters = redis.call('TIME'), {}
local micros = now[1] * 1000000 + now[2]
for i = 1, count do
  local last = tonumber(redis.call('GET', KEYS[count + i]) or 0)
  -- Past 2^53 a number cannot be counted up here, and tokens would repeat.
  if not (last and last < 2 ^ 53 - 1) then
    return redis.error_reply('ERR the fencing counter is no number that can be counted up')
  end
  counters[i] = next and math.max(last + 1, micros) or math.max(last, tonumber(ARGV[4]))
end
for _, key in ipairs(free) do
  redis.call('SET', key, ARGV[2], 'PX', ARGV[3])
end
for _, key in ipairs(own) do
  if redis.call('PTTL', key) < tonumber(ARGV[3]) then redis.call('PEXPIRE', key, ARGV[3]) end
end
for i, most in ipairs(counters) do
  local ends = math.max(most, micros) / 1000 + 604800000
  redis.call('SET', KEYS[count + i], string.format('%.0f', most))
  redis.call('PEXPIREAT', KEYS[count + i], string.format('%.0f', ends))
end
local done = #free == 0 and 2 or 1
return next and {done, counters} or done
