-- Put before every script. KEYS: the keys. ARGV[1]: the token, where there is one.
-- at(i) tells what is at a key: absent, ours, or {place, type, pttl, head of the value}.
-- TYPE comes first because GET is an error on what is no string.
local token, absent, ours = ARGV[1], {}, {}
local function at(i)
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind == 'none' then return absent end
  local value = kind == 'string' and redis.call('GET', KEYS[i])
  if token and value and (value == token or value:sub(1, 37) == token .. ' ') then return ours end
  return {i, kind, redis.call('PTTL', KEYS[i]), value and value:sub(1, 1024)}
end
local held = {}
