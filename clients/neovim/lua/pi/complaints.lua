---Errors in words for the person, with the way out where this editor has one.
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

---@param err pi.Error
function M.tell(err)
  if err.data and err.data.kind == "requestCancelled" then
    return
  end
  vim.notify(M.words(err), vim.log.levels.ERROR)
end

return M
