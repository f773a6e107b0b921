-- No ARGV. The places of the keys that hold strings.
local places = {}
for i, key in ipairs(KEYS) do
  if redis.call('TYPE', key).ok == 'string' then places[#places + 1] = i end
end
return places
