-- No ARGV. Everything that is there, or 0. Reads only.
for i in ipairs(KEYS) do
  local what = at(i)
  if what ~= absent then held[#held + 1] = what end
end
if #held > 0 then return held end
return 0
