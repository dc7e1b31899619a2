---From a place in a chat to the file it names.
---
---Owns what a link is: a file with or without line and column, under the cursor; else the file of a tool call.
local M = {}

---Suffixes that say where in a file: `:12`, `:12:3`, `:12-20`, `#L12`.
local PLACES = { "^(.-):(%d+):(%d+)", "^(.-):(%d+)", "^(.-)#L(%d+)" }

---@param word string
---@return string path
---@return integer? line
---@return integer? column
function M.parse(word)
  for _, pattern in ipairs(PLACES) do
    local path, line, column = word:match(pattern)
    if path and path ~= "" then
      return path, tonumber(line), tonumber(column)
    end
  end
  return word
end

---@param path string
---@param cwd string
---@return string? full nil where there is no such file
local function existing(path, cwd)
  if path == "" then
    return nil
  end
  path = vim.startswith(path, "file://") and vim.uri_to_fname(path) or vim.fs.normalize(path)
  local full = vim.startswith(path, "/") and path or vim.fs.joinpath(cwd, path)
  local stat = vim.uv.fs_stat(full)
  return stat and stat.type == "file" and full or nil
end

---The link at a column of a line: the longest run of letters that names a file.
---@param line string
---@param column integer bytes, from 0
---@param cwd string
---@return {path: string, line?: integer, column?: integer}?
function M.at(line, column, cwd)
  -- Names with spaces stand between backticks or quotes, others between those and spaces.
  for _, letters in ipairs({ '[^`"]', "[^%s`\"'()%[%]<>,;*|]" }) do
    local from = 1
    while true do
      local first, last = line:find(letters .. "+", from)
      if not first or first > column + 1 then
        break
      end
      if column + 1 <= last then
        local word = vim.trim(line:sub(first, last)):gsub("[.:]+$", ""):gsub("^@", "")
        local path, row, col = M.parse(word)
        local full = existing(path, cwd)
        if full then
          return { path = full, line = row, column = col }
        end
      end
      from = last + 1
    end
  end
end

---The file of a tool call: where the daemon says it works; of earlier calls, what their arguments name.
---@param block? pi.Block
---@param cwd string
---@return {path: string, line?: integer, column?: integer}?
function M.of_block(block, cwd)
  if not block or block.kind ~= "tool" then
    return nil
  end
  local location = block.locations and block.locations[1]
  if not location then
    local path = block.args and block.args.path
    local full = type(path) == "string" and existing(path, cwd)
    return full and { path = full } or nil
  end
  local line = location.range and location.range.start.line + 1
  return { path = vim.uri_to_fname(location.uri), line = line }
end

---Open a link where people edit: the window before, another one, or a new one. Never in a chat's own.
---@param link {path: string, line?: integer, column?: integer}
function M.open(link)
  local function fits(window)
    return window ~= 0
      and not vim.w[window].pi_role
      and vim.api.nvim_win_get_config(window).relative == ""
      and vim.bo[vim.api.nvim_win_get_buf(window)].buftype == ""
  end
  local windows = { vim.fn.win_getid(vim.fn.winnr("#")) }
  vim.list_extend(windows, vim.api.nvim_tabpage_list_wins(0))
  local target
  for _, window in ipairs(windows) do
    target = target or (fits(window) and window)
  end
  if target then
    vim.api.nvim_set_current_win(target)
  else
    vim.cmd("leftabove vsplit")
    require("pi.chat_windows").undress(0)
  end
  vim.cmd("normal! m'")
  local name = vim.fn.fnameescape(link.path)
  -- Text that is not saved stays in sight where it cannot be hidden.
  if not pcall(vim.cmd.edit, name) and not pcall(vim.cmd.split, name) then
    return vim.notify("pi: this file cannot be opened here: " .. link.path, vim.log.levels.WARN)
  end
  if link.line then
    local line = math.min(link.line, vim.api.nvim_buf_line_count(0))
    vim.api.nvim_win_set_cursor(0, { line, math.max(0, (link.column or 1) - 1) })
    vim.cmd("normal! zvzz")
  end
end

return M
