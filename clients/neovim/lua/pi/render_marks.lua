---How a block looks: highlights and virtual texts, by its own rows.
---
---Pure. `pi.chat_buffer` makes extmarks of them, `pi.folds` the line of a closed fold.
local text = require("pi.render_text")

local M = {}

local ICONS = {
  writing = { "… ", "PiRunning" },
  running = { "● ", "PiRunning" },
  done = { "✓ ", "PiDone" },
  failed = { "✗ ", "PiFailed" },
}

---What is said after the title of a block.
---@param block pi.Block
---@return string
function M.detail(block)
  local parts = {}
  local function add(format, ...)
    parts[#parts + 1] = format:format(...)
  end
  if block.state == "writing" and block.written then
    add("%s written", text.count(block.written))
  end
  if block.exit_code and block.exit_code ~= 0 then
    add("exit %d", block.exit_code)
  end
  if block.duration and block.duration >= 1000 then
    add("%s", text.duration(block.duration))
  end
  if block.omitted then
    add("%s bytes not shown", text.count(block.omitted))
  end
  if block.private then
    add("not for the model")
  end
  if block.tokens then
    add("%s tokens", text.count(block.tokens))
  end
  if block.input and block.input + block.output > 0 then
    add("%s in, %s out", text.count(block.input), text.count(block.output))
    if block.cost > 0 then
      add("$%.4f", block.cost)
    end
  end
  return table.concat(parts, " · ")
end

---@param block pi.Block
---@return [string, string]? icon
function M.icon(block)
  return ICONS[block.state]
end

local TITLES = {
  user = "PiUser",
  assistant = "PiAssistant",
  thinking = "PiThinking",
  tool = "PiTool",
  attached = "PiAttachment",
  summary = "PiDetail",
  earlier = "PiDetail",
}
local NOTICES = { info = "PiInfo", warning = "PiWarning", error = "PiError" }

---@param block pi.Block
---@return string? group of its first line
function M.title_group(block)
  return TITLES[block.kind] or NOTICES[block.level]
end

local function diff_marks(marks, block)
  local row = #block.head
  for _, line in ipairs(vim.split(block.diff, "\n", { plain = true })) do
    local sign = line:sub(1, 1)
    local below = row + #text.lines(line)
    if sign == "+" or sign == "-" then
      local group = sign == "+" and "PiAdded" or "PiRemoved"
      marks[#marks + 1] = { row = row, column = 0, end_row = below, end_column = 0, hl_group = group }
    end
    row = below
  end
end

---@class pi.Mark: vim.api.keyset.set_extmark
---@field row integer from the block's first
---@field column integer
---@field end_row? integer from the block's first
---@field end_column? integer

---@param block pi.Block
---@param height integer its rows
---@return pi.Mark[]
function M.marks(block, height)
  local marks = {}
  local group = M.title_group(block)
  if group then
    local last = block.level and height or 1
    marks[1] = { row = 0, column = 0, end_row = last, end_column = 0, hl_group = group, priority = 120 }
  end
  if block.kind == "user" or block.kind == "assistant" then
    marks[#marks + 1] = { row = 0, column = 0, end_row = 0, end_column = 3, conceal = "", priority = 120 }
  elseif block.kind == "thinking" then
    -- Grows with what is added before its end.
    marks[#marks + 1] =
      { row = 1, column = 0, end_row = height, end_column = 0, hl_group = "PiThinking", priority = 120 }
  elseif block.diff then
    diff_marks(marks, block)
  end
  if block.fold and block.head[2] and block.tail[1] then
    -- Over what Markdown makes of code, below what the code's own language does.
    local body = { row = 2, column = 0, end_row = height - 1, end_column = 0, hl_group = "PiOutput", priority = 95 }
    marks[#marks + 1] = body
    -- The fence around an output is there for Markdown alone.
    for _, row in ipairs({ 1, height - 1 }) do
      marks[#marks + 1] = { row = row, column = 0, conceal_lines = "" }
    end
  end
  local icon, detail = M.icon(block), M.detail(block)
  if icon then
    marks[#marks + 1] = { row = 0, column = 0, virt_text = { icon }, virt_text_pos = "inline", right_gravity = false }
  end
  if detail ~= "" then
    marks[#marks + 1] = { row = 0, column = 0, virt_text = { { " " .. detail, "PiDetail" } }, virt_text_pos = "eol" }
  end
  return marks
end

return M
