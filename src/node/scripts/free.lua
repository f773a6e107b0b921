-- ARGV: for each key what may be deleted, then for each key the channel of those who wait, then
-- for each key the channel of its holder. 36 characters are a token and mean whatever carries it;
-- else it is a whole value, deleted only where it has an expiry. 1: something was deleted. 0:
-- nothing is there. Else what is there instead. Publishing comes last and may fail.
local n, freed = #KEYS, {}
for i, key in ipairs(KEYS) do
  local want, kind = ARGV[i], redis.call('TYPE', key).ok
  if want ~= '' and kind ~= 'none' then
    local value = kind == 'string' and redis.call('GET', key)
    local pttl = redis.call('PTTL', key)
    local head = value and value:sub(1, 1024)
    local carries = value and #want == 36 and (value == want or value:sub(1, 37) == want .. ' ')
    if carries or (value and head == want and pttl >= 0) then
      redis.call('DEL', key)
      freed[#freed + 1] = i
    else
      held[#held + 1] = {i, kind, pttl, head}
    end
  end
end
for _, i in ipairs(freed) do
  local waiters = redis.pcall('PUBSUB', 'NUMSUB', ARGV[n + i])
  redis.pcall('PUBLISH', ARGV[n + i], ARGV[i] .. ' ' .. (waiters[2] or 1))
  redis.pcall('PUBLISH', ARGV[2 * n + i], ARGV[i])
end
if #freed > 0 then return 1 end
if #held > 0 then return held end
return 0
