-- Put before the scripts that take a key: who may not keep and give back a lock shall not take it.
-- lacking(key) is the error to answer with. Servers before 7.0 cannot tell.
local may = redis.acl_check_cmd
local function lacking(key)
  local needed = {{'del', key}, {'pexpire', key, 1}, {'pttl', key}, {'get', key}, {'time'}}
  for _, call in ipairs(may and needed or {}) do
    if not may(unpack(call)) then
      return redis.error_reply("NOPERM The user executing the script can't run '" .. call[1] .. "'")
    end
  end
end
