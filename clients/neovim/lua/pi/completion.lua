---Completion in the prompt: files after `@`, commands after a `/` that begins the text.
---
---Asks the daemon while a word is typed, and offers what it answers. The omnifunc, which completion plugins use as they
---use any, gives what was answered last and never waits: an editor that waits there cannot change any text meanwhile,
---not for the agent either.
local attachments = require("pi.attachments")

local M = {}

local LIMIT = 50

---What is to be completed in `line` before the cursor, if it is ours.
---@param line string up to the cursor
---@param row integer the cursor's, from 1
---@return "file"|"command"|nil kind
---@return integer? column where the word begins, its sign not included
---@return string? base
function M.target(line, row)
  local slash = row == 1 and line:match("^/()%S*$")
  if slash then
    return "command", slash - 1, line:sub(slash)
  end
  local at = (" " .. line:gsub("\\ ", "\1\1")):match("[%s(]@()%S*$")
  if at then
    return "file", at - 2, line:sub(at - 1)
  end
end

---@class pi.Source
---@field method string
---@field params fun(base: string): table
---@field items fun(result: table, base: string): table[]

---@type table<string, pi.Source>
local SOURCES = {
  file = {
    method = "file/search",
    params = function(base)
      return { query = attachments.unescaped(base), limit = LIMIT }
    end,
    items = function(result)
      return vim.tbl_map(function(file)
        return { word = attachments.escaped(file.path), menu = file.kind == "directory" and "directory" or nil }
      end, result.files)
    end,
  },
  command = {
    method = "command/list",
    params = function()
      return {}
    end,
    items = function(result, base)
      local items = {}
      for _, command in ipairs(result.commands) do
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
    end,
  },
}

---@class pi.Answer
---@field kind "file"|"command"
---@field base string
---@field items table[]

---What was answered last, in each prompt.
---@type table<pi.Prompt, pi.Answer>
local latest = setmetatable({}, { __mode = "k" })

---Where the cursor is.
local function here()
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  return M.target(vim.api.nvim_get_current_line():sub(1, column), row)
end

local function inserting(prompt)
  return vim.api.nvim_get_current_buf() == prompt.buffer and vim.startswith(vim.api.nvim_get_mode().mode, "i")
end

---@param items table[]
---@param base string
local function is_whole(items, base)
  for _, item in ipairs(items) do
    if item.word == base then
      return true
    end
  end
  return false
end

---Ask for what fits, and call `done` with it if the cursor is still there.
---@param prompt pi.Prompt
---@param kind "file"|"command"
---@param base string
---@param done fun(items: table[], column: integer)
local function ask(prompt, kind, base, done)
  local source = SOURCES[kind]
  prompt.session:request(source.method, source.params(base), function(err, result)
    -- Nothing is completed where nothing is found; an error is told when the prompt is sent.
    if err or not inserting(prompt) then
      return
    end
    local now, column, text = here()
    if now == kind and text == base then
      latest[prompt] = { kind = kind, base = base, items = source.items(result, base) }
      done(latest[prompt].items, column --[[@as integer]])
    end
  end)
end

---@param items table[]
---@param column integer
local function show(items, column)
  if #items > 0 then
    vim.fn.complete(column + 1, items)
  end
end

---The text has changed while it is typed.
---@param prompt pi.Prompt
---@param offer boolean whether what fits is shown, too
function M.typed(prompt, offer)
  local kind, _, base = here()
  local last = latest[prompt]
  -- An item that was just chosen is not completed anew.
  if not kind or not base or (last and last.kind == kind and is_whole(last.items, base)) then
    return
  end
  ask(prompt, kind, base, function(items, column)
    if offer then
      show(items, column)
    end
  end)
end

---@param findstart 0|1
---@param base string
---@return integer|table[]
function M.omnifunc(findstart, base)
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local line = vim.api.nvim_get_current_line():sub(1, column)
  if findstart == 1 then
    local _, start = M.target(line, row)
    -- Nothing of ours: leave, and say nothing.
    return start or -3
  end
  -- The base may be in the line or taken out of it: either way the sign before it tells.
  local kind = M.target(line .. base, row)
  local prompt = require("pi.prompt").of(vim.api.nvim_get_current_buf())
  if not kind or not prompt then
    return {}
  end
  local last = latest[prompt]
  if last and last.kind == kind and vim.startswith(base, last.base) then
    return base == last.base and last.items or vim.fn.matchfuzzy(last.items, base, { key = "word" })
  end
  vim.schedule(function()
    local now, _, text = here()
    if now and text then
      ask(prompt, now, text, show)
    end
  end)
  return {}
end

return M
