---Whether a text is valid UTF-8, as the wire needs it. Pure.
local M = {}

local CONT = "[\128-\191]"
-- Well-formed sequences (Unicode, table 3-7), the longest first.
local SEQUENCES = {
  "\240[\144-\191]" .. CONT .. CONT,
  "[\241-\243]" .. CONT .. CONT .. CONT,
  "\244[\128-\143]" .. CONT .. CONT,
  "\224[\160-\191]" .. CONT,
  "[\225-\236\238-\239]" .. CONT .. CONT,
  "\237[\128-\159]" .. CONT,
  "[\194-\223]" .. CONT,
}

---@param text string
---@return boolean
function M.valid(text)
  if not text:find("[\128-\255]") then
    return true
  end
  local rest = text:gsub("[%z\1-\127]+", " ")
  for _, sequence in ipairs(SEQUENCES) do
    -- A space in its place: what stood around it must not come together.
    rest = rest:gsub(sequence, " ")
  end
  return not rest:find("[\128-\255]")
end

return M
