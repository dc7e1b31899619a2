---Completion in the prompt: files after `@`, commands after a `/` that begins the text.
---
---An omnifunc, which completion plugins use as they use any. It asks the daemon, and waits for it a moment.
local M = {}

local WAIT_MS = 1000

---What is to be completed in `line` before the cursor, if it is ours.
---@param line string up to the cursor
---@param row integer the cursor's, from 1
---@return "file"|"command"|nil kind
---@return integer? column where the word begins, its sign not included
function M.target(line, row)
  local slash = row == 1 and line:match("^/()%S*$")
  if slash then
    return "command", slash - 1
  end
  local at = (" " .. line):match("[%s(]@()%S*$")
  if at then
    return "file", at - 2
  end
end

---Ask and wait; an answer that is late or an error completes nothing.
local function ask(session, method, params)
  local answer
  session:request(method, params, function(err, result)
    answer = err and {} or result
  end)
  vim.wait(WAIT_MS, function()
    return answer ~= nil
  end, 2)
  return answer or {}
end

---@type table<string, fun(session: pi.Session, base: string): table[]>
local sources = {}

function sources.file(session, base)
  local items = {}
  for _, file in ipairs(ask(session, "file/search", { query = base, limit = 50 }).files or {}) do
    items[#items + 1] = { word = file.path, menu = file.kind == "directory" and "directory" or nil }
  end
  return items
end

function sources.command(session, base)
  local items = {}
  for _, command in ipairs(ask(session, "command/list", {}).commands or {}) do
    if vim.startswith(command.name, base) then
      local hint = command.argumentHint and " " .. command.argumentHint or ""
      items[#items + 1] = {
        word = command.name,
        abbr = "/" .. command.name .. hint,
        menu = command.source,
        info = command.description,
      }
    end
  end
  return items
end

---@param findstart 0|1
---@param base string
function M.omnifunc(findstart, base)
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local line = vim.api.nvim_get_current_line():sub(1, column)
  -- The base may be in the line or taken out of it: either way the sign before it tells.
  local kind, start = M.target(findstart == 1 and line or line .. base, row)
  if findstart == 1 then
    -- Nothing of ours: leave, and say nothing.
    return start or -3
  end
  local prompt = require("pi.prompt").of(vim.api.nvim_get_current_buf())
  if not kind or not prompt then
    return {}
  end
  return { words = sources[kind](prompt.session, base), refresh = "always" }
end

return M
