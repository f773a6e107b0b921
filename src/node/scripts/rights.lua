-- Put before the scripts that take a key: who may not keep and give back a lock shall not take it.
-- lacking(key) is the error to answer with. Servers before 7.0 cannot tell.
local may = redis.acl_check_cmd
local function lacking(key)
  local what = may and (not may('DEL', key) and 'del' or not may('PEXPIRE', key, 1) and 'pexpire')
  return what and redis.error_reply("NOPERM The user executing the script can't run '" .. what .. "'")
end
