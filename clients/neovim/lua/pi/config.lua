---The options: one table of rows, from which the defaults, the checks and `doc/pi.txt` come.
local M = {}

---@class pi.Option
---@field name string dotted path
---@field default any
---@field type string|string[] of vim.validate, or the words that are allowed
---@field doc string
---@field wanted? string what a value of this type must be besides, in words
---@field fits? fun(value: any): boolean

---@param value table
---@return boolean
local function is_command(value)
  for _, word in ipairs(value) do
    if type(word) ~= "string" then
      return false
    end
  end
  return vim.islist(value) and value[1] ~= nil and value[1] ~= ""
end

---@param value table
---@return boolean
local function is_environment(value)
  for name, text in pairs(value) do
    if type(name) ~= "string" or (type(text) ~= "string" and type(text) ~= "number") then
      return false
    end
  end
  return true
end

---@type pi.Option[]
M.options = {
  {
    name = "command",
    default = { "pi-rpc" },
    type = "table",
    wanted = "a list of texts, the program first",
    fits = is_command,
    doc = "The program of the daemon and what comes before `--stdio`. Never taken from a project's own files.",
  },
  {
    name = "env",
    default = {},
    type = "table",
    wanted = "texts by their names",
    fits = is_environment,
    doc = "Environment variables for the daemon, added to Neovim's own.",
  },
  {
    name = "session",
    default = {},
    type = "table",
    doc = "What new sessions begin with, as the params of `session/new`: `model`, `thinkingLevel`, `permissionMode`, …",
  },
  {
    name = "scope",
    default = "editor",
    type = { "editor", "tab" },
    doc = "Whether all tabs share a session or each tab has one of its own.",
  },
  {
    name = "chat.layout",
    default = "right",
    type = { "right", "left", "below", "tab", "float" },
    doc = "Where the chat opens.",
  },
  {
    name = "chat.width",
    default = 0.4,
    type = "number",
    doc = "Width of the chat beside other windows and as a float; below 1 as a share of the screen.",
  },
  {
    name = "chat.height",
    default = 0.5,
    type = "number",
    doc = "Height of the chat below other windows and as a float; below 1 as a share of the screen.",
  },
  {
    name = "chat.messages",
    default = 200,
    type = "number",
    doc = "How many messages of a session are drawn when it is opened.",
  },
  {
    name = "chat.thinking",
    default = "folded",
    type = { "folded", "open", "hidden" },
    doc = "How a model's thinking is shown.",
  },
  {
    name = "chat.open_lines",
    default = 16,
    type = "number",
    doc = "Outputs of tools with more lines than this are folded when the tool is done.",
  },
  {
    name = "chat.keys.follow",
    default = "<CR>",
    type = "string",
    doc = "In the chat: open the file under the cursor or of the tool call, else the fold (so does `gf`).",
  },
  {
    name = "chat.keys.stop",
    default = "<C-c>",
    type = "string",
    doc = "In the chat: stop what goes on; what waited is given back to the prompt.",
  },
  {
    name = "prompt.height",
    default = 12,
    type = "number",
    doc = "How many lines the prompt may take; it grows with what is in it.",
  },
  {
    name = "prompt.complete",
    default = true,
    type = "boolean",
    doc = "Whether completion is offered while an `@file` or a `/command` is typed. It is an omnifunc: set it to false"
      .. " where a plugin offers it.",
  },
  {
    name = "prompt.keys.send",
    default = "<CR>",
    type = "string",
    doc = "In the prompt: send, and steer while a run goes on.",
  },
  {
    name = "prompt.keys.follow_up",
    default = "<M-CR>",
    type = "string",
    doc = "In the prompt: send for when the run is done.",
  },
  {
    name = "prompt.keys.newline",
    default = "<C-j>",
    type = "string",
    doc = "In the prompt: a new line, in Insert mode (so do `<S-CR>`, where the terminal tells it apart, and `o`).",
  },
  {
    name = "prompt.keys.stop",
    default = "<C-c>",
    type = "string",
    doc = "In the prompt: stop what goes on, and take back what waits; leaves Insert mode while nothing goes on.",
  },
  {
    name = "prompt.keys.detach",
    default = "<M-x>",
    type = "string",
    doc = "In the prompt: take an attachment off again.",
  },
  {
    name = "questions.open",
    default = "ask",
    type = { "ask", "chat" },
    doc = "When questions of the agent open: only on `:Pi answer`, or also at once when they come while the cursor"
      .. " is in the chat in Normal mode. Focus is never taken from another window.",
  },
  {
    name = "questions.notify",
    default = true,
    type = "boolean",
    doc = "Whether `vim.notify` tells of a question that waits.",
  },
  {
    name = "review.keys.accept",
    default = "ga",
    type = "string",
    doc = "In a review: write the right side as it is now (so does `:write`).",
  },
  {
    name = "review.keys.reject",
    default = "gr",
    type = "string",
    doc = "In a review: reject the change, with a word to the agent if you like.",
  },
  {
    name = "review.keys.drop",
    default = "gd",
    type = "string",
    doc = "In a review: take the original text of the hunk under the cursor (as `do` does).",
  },
  {
    name = "quit.ask",
    default = true,
    type = "boolean",
    doc = "Whether leaving Neovim asks first while a run goes on.",
  },
}

---@type table<string, any>?
local current
---@type string[] what is wrong with the options that were given
local wrong = {}

local function place(into, path, value)
  local names = vim.split(path, ".", { plain = true })
  for index = 1, #names - 1 do
    into[names[index]] = into[names[index]] or {}
    into = into[names[index]]
  end
  into[names[#names]] = value
end

local function check(option, value)
  if type(option.type) == "table" then
    if
      not vim.tbl_contains(option.type --[[@as string[] ]], value)
    then
      return ("%s must be one of %s; it is %s"):format(
        option.name,
        table.concat(option.type --[[@as string[] ]], ", "),
        vim.inspect(value)
      )
    end
  elseif type(value) ~= option.type then
    return ("%s must be a %s; it is %s"):format(option.name, option.type, vim.inspect(value))
  elseif option.fits and not option.fits(value) then
    return ("%s must be %s; it is %s"):format(option.name, option.wanted, vim.inspect(value))
  elseif option.type == "number" and not (value > 0 and value < math.huge) then
    return ("%s must be above 0; it is %s"):format(option.name, vim.inspect(value))
  end
end

---Names in `given` that no option has.
local function unknown(given, known, prefix, found)
  for name, value in pairs(given) do
    local path = prefix .. name
    if known[path] == nil then
      found[#found + 1] = path
    elseif known[path] == "group" then
      if type(value) == "table" then
        unknown(value, known, path .. ".", found)
      else
        found[#found + 1] = path
      end
    end
  end
  return found
end

---All faults of a table of options, in words.
---@param given table
---@return string[]
function M.faults(given)
  if type(given) ~= "table" then
    return { "the options must be a table; they are " .. vim.inspect(given) }
  end
  local known, faults = {}, {}
  for _, option in ipairs(M.options) do
    known[option.name] = "option"
    for parent in option.name:gmatch("()%.") do
      known[option.name:sub(1, parent - 1)] = "group"
    end
    local value = vim.tbl_get(given, unpack(vim.split(option.name, ".", { plain = true })))
    if value ~= nil then
      faults[#faults + 1] = check(option, value)
    end
  end
  for _, name in ipairs(unknown(given, known, "", {})) do
    faults[#faults + 1] = ("there is no option %s; :help pi-options lists them"):format(name)
  end
  return faults
end

---Take what a person wants; what is wrong is told and left at its default.
---@param given? table
function M.set(given)
  given = given or {}
  wrong = M.faults(given)
  if #wrong > 0 then
    vim.notify("pi: " .. table.concat(wrong, "\npi: "), vim.log.levels.ERROR)
  end
  given = type(given) == "table" and given or {}
  current = {}
  for _, option in ipairs(M.options) do
    local value = vim.tbl_get(given, unpack(vim.split(option.name, ".", { plain = true })))
    if value == nil or check(option, value) then
      value = vim.deepcopy(option.default)
    end
    place(current, option.name, value)
  end
end

---What is wrong with the options as they were given, in words.
---@return string[]
function M.wrong()
  M.get()
  return wrong
end

---The options as they are now.
---@return table
function M.get()
  if not current then
    M.set(vim.g.pi)
  end
  return current --[[@as table]]
end

return M
