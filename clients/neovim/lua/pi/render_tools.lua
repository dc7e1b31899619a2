---What is shown of a tool call: its title as long as the daemon has said none, and its output.
---
---Pure, but for asking Neovim which language a file name stands for.
local text = require("pi.render_text")

local M = {}

---What a call is about, by the first of these arguments that it has.
local SUBJECTS = { "path", "pattern", "command", "query", "url" }

---A title for calls of which only name and arguments are known: the model has just written them.
---@param name string
---@param args? table
---@return string
function M.title(name, args)
  args = args or {}
  if name == "bash" and type(args.command) == "string" then
    return "$ " .. args.command
  end
  for _, subject in ipairs(SUBJECTS) do
    if type(args[subject]) == "string" then
      return name .. " " .. args[subject]
    end
  end
  return name
end

---The language that Markdown is told, for a file's name.
local function language(path)
  if type(path) ~= "string" then
    return ""
  end
  local known, filetype = pcall(vim.filetype.match, { filename = path })
  return known and filetype or ""
end

---The text to show of a result, and its language ("" for none).
---@param name string
---@param args? table
---@param result {content?: table[], details?: table}
---@param is_error boolean
---@return string body
---@return string language
function M.output(name, args, result, is_error)
  args = args or {}
  local said = text.of_content(result.content)
  if not is_error then
    local details = type(result.details) == "table" and result.details or {}
    if type(details.diff) == "string" and details.diff ~= "" then
      return details.diff, "diff"
    elseif name == "write" and type(args.content) == "string" then
      return args.content, language(args.path)
    elseif name == "read" then
      return said, language(args.path)
    end
  end
  return said, ""
end

return M
