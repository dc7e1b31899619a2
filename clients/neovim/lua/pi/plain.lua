---Texts of a model, made fit to be shown: what does not print, or turns the direction of text, is spelled out.
local M = {}

-- Marks of direction, joiners, and other characters that show nothing: first and last of each range.
local UNSEEN = {
  { 0x80, 0x9f },
  { 0xad, 0xad },
  { 0x34f, 0x34f },
  { 0x61c, 0x61c },
  { 0x115f, 0x1160 },
  { 0x17b4, 0x17b5 },
  { 0x180b, 0x180e },
  { 0x200b, 0x200f },
  { 0x2028, 0x202e },
  { 0x2060, 0x206f },
  { 0x3164, 0x3164 },
  { 0xfeff, 0xfeff },
  { 0xffa0, 0xffa0 },
  { 0xfff9, 0xfffb },
  { 0xe0000, 0xe007f },
}

---@param char string one character
---@return string?
local function spelled(char)
  local code = vim.fn.char2nr(char)
  for _, range in ipairs(UNSEEN) do
    if code >= range[1] and code <= range[2] then
      return ("<%04x>"):format(code)
    end
  end
end

---@param line string
---@return string
local function shown(line)
  line = line:gsub("[%z\1-\8\11-\31\127]", function(char)
    return ("<%02x>"):format(char:byte())
  end)
  return (line:gsub("[\192-\244][\128-\191]+", spelled))
end

---@param text string
---@return string[]
function M.lines(text)
  return vim.tbl_map(shown, vim.split((text:gsub("\r\n", "\n")), "\n", { plain = true }))
end

---As one line, of at most `width` cells.
---@param text string
---@param width? integer
---@return string
function M.line(text, width)
  local line = shown((text:gsub("%s*\n%s*", " ⏎ ")))
  if width and vim.fn.strdisplaywidth(line) > width then
    line = vim.fn.strcharpart(line, 0, width - 1)
    -- Some characters take two cells.
    while line ~= "" and vim.fn.strdisplaywidth(line) >= width do
      line = vim.fn.strcharpart(line, 0, vim.fn.strchars(line) - 1)
    end
    line = line .. "…"
  end
  return line
end

---A moment as the clock here shows it.
---@param timestamp string ISO 8601 in UTC
---@return string
function M.time(timestamp)
  local year, month, day, hour, minute = timestamp:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+)")
  if not year then
    return timestamp
  end
  -- Lua reads times of this place only: what is read wrongly by, the clock of UTC tells at that moment.
  local misread = os.time({ year = year, month = month, day = day, hour = hour, min = minute, isdst = false })
  local there = os.date("!*t", misread) --[[@as table]]
  there.isdst = false
  return os.date("%Y-%m-%d %H:%M", misread + os.difftime(misread, os.time(there))) --[[@as string]]
end

return M
