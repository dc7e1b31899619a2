---Words for the person: errors with the way out where this editor has one, and what comes while they do something else.
local M = {}

---@type table<string, string>
local remedies = {
  authRequired = "`:Pi auth` sets a key",
  modelRequired = "`:Pi model` chooses one, `:Pi auth` sets a key",
  sessionLocked = "`:Pi fork` goes on in a copy",
  sessionBusy = "`:Pi stop` ends what goes on",
  daemonLost = "`:Pi restart` starts it again, `:Pi log` shows why it ended",
}

---@param err pi.Error
---@return string
function M.words(err)
  local remedy = remedies[err.data and err.data.kind or ""]
  return "pi: " .. err.message .. (remedy and " (" .. remedy .. ")" or "")
end

---Tell something that comes at any moment. Neovim's own messages wait for a key when they are longer than a line, and
---would take the one that is just typed: there the text is cut.
---@param text string
---@param level? integer
function M.brief(text, level)
  local own = debug.getinfo(vim.notify, "S").source:find("^@?vim/_") ~= nil
  text = "pi: " .. text
  vim.notify(own and require("pi.plain").line(text, vim.v.echospace) or text, level or vim.log.levels.WARN)
end

---@param err pi.Error
function M.tell(err)
  if err.data and err.data.kind == "requestCancelled" then
    return
  end
  vim.notify(M.words(err), vim.log.levels.ERROR)
end

return M
