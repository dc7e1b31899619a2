---Text as it may stand in the buffer of a chat, which is Markdown.
---
---Owns how texts are cut into lines, fenced and quoted. Pure. Does not own what is shown.
local M = {}

---Tools' output stands between lines of this.
M.FENCE = "~~~~~~~~~"
---Lines are cut at so many bytes: editors are slow on longer ones, and appending to them costs their length.
M.LINE_BYTES = 8192
---Ends a piece of a line that was cut.
M.CUT = " ↩"

---The end of a piece of at most `limit` bytes from `from` on that cuts no character in two.
local function cut(text, from, limit)
  local stop = from + limit - 1
  if stop >= #text then
    return #text
  end
  while stop > from and text:byte(stop + 1) >= 0x80 and text:byte(stop + 1) < 0xC0 do
    stop = stop - 1
  end
  return stop
end

---Lines of `text`, which goes on where a line has `column` bytes already.
---@param text string
---@param column? integer
---@return string[]
function M.lines(text, column)
  local lines = {}
  local room = M.LINE_BYTES - (column or 0)
  for line in (text:gsub("\r\n", "\n") .. "\n"):gmatch("(.-)\n") do
    local from = 1
    while #line - from + 1 > room do
      local stop = room > 0 and cut(line, from, room) or from - 1
      lines[#lines + 1] = line:sub(from, stop) .. M.CUT
      from, room = stop + 1, M.LINE_BYTES
    end
    lines[#lines + 1] = line:sub(from)
    room = M.LINE_BYTES
  end
  return lines
end

---`text` with lines that would end a fence moved to the right, where they do not.
function M.guarded(text)
  if not text:find(M.FENCE, 1, true) then
    return text
  end
  return (("\n" .. text):gsub("\n( ? ? ?~~~~~~~~~)", "\n    %1"):sub(2))
end

---What a terminal would show of an output in the end: of lines that were written over, what was written last.
function M.settled(text)
  if not text:find("\r", 1, true) then
    return text
  end
  return (text:gsub("\r+\n", "\n"):gsub("[^\n]*\r([^\n])", "%1"))
end

---One line that Markdown shows as it is.
function M.code(text)
  text = text:gsub("%s*\n%s*", " "):gsub("[%z\1-\31]", " ")
  if text == "" then
    return ""
  end
  local longest = 0
  for run in text:gmatch("`+") do
    longest = math.max(longest, #run)
  end
  local ticks = ("`"):rep(longest + 1)
  local pad = (text:sub(1, 1) == "`" or text:sub(-1) == "`") and " " or ""
  return ticks .. pad .. text .. pad .. ticks
end

---The line that ends a fence which `text` leaves open, so that what follows is no code; nil where none is open.
---@param text string
---@return string?
function M.open_fence(text)
  if not (text:find("```", 1, true) or text:find("~~~", 1, true)) then
    return nil
  end
  local open
  for line in (text .. "\n"):gmatch("(.-)\n") do
    local indent, run, rest = line:match("^( *)([`~][`~][`~]+)(.*)$")
    -- A run of one letter: backticks and tildes do not mix.
    if run and #indent < 4 and not run:find(run:sub(1, 1) == "`" and "~" or "`", 1, true) then
      if not open then
        if run:sub(1, 1) == "~" or not rest:find("`", 1, true) then
          open = run
        end
      elseif run:sub(1, 1) == open:sub(1, 1) and #run >= #open and not rest:find("%S") then
        open = nil
      end
    end
  end
  return open
end

---`12345` as `12.3k`.
function M.count(number)
  if number < 1000 then
    return ("%d"):format(number)
  elseif number < 1e6 then
    return ("%.1fk"):format(number / 1000)
  end
  return ("%.1fM"):format(number / 1e6)
end

---Milliseconds as people say them.
function M.duration(ms)
  if ms < 1000 then
    return ("%d ms"):format(math.floor(ms + 0.5))
  elseif ms < 60000 then
    return ("%.1f s"):format(ms / 1000)
  end
  return ("%d:%02d min"):format(math.floor(ms / 60000), math.floor(ms / 1000) % 60)
end

---The text of a message's content, a string or blocks; what is no text is named.
---@param content string|table[]|nil
---@return string
function M.of_content(content)
  if type(content) ~= "table" then
    return content or ""
  end
  local parts = {}
  for _, block in ipairs(content) do
    if block.type == "text" then
      parts[#parts + 1] = block.text
    elseif block.type == "image" then
      parts[#parts + 1] = ("[image, %s]"):format(block.mimeType or "of an unknown kind")
    end
  end
  return table.concat(parts, "\n")
end

return M
