---Tells people's own code what happens: functions given to `on`, and `User PiEvent…` autocommands.
local M = {}

---@type table<string, table<integer, fun(event: table, session: pi.Session)>>
local listeners = {}
local next_number = 1
---@type table<string, string>
local patterns = {}

---@param event string a type of event, or "*"
---@param fn fun(event: table, session: pi.Session)
---@return fun() off
function M.on(event, fn)
  local number = next_number
  next_number = number + 1
  listeners[event] = listeners[event] or {}
  listeners[event][number] = fn
  return function()
    listeners[event][number] = nil
  end
end

---The pattern of the autocommands of a type: `agent_settled` is `PiEventAgentSettled`.
---@param event string
---@return string
function M.pattern(event)
  if not patterns[event] then
    patterns[event] = "PiEvent" .. (event:gsub("%f[%a]%a", string.upper):gsub("_", ""):gsub("^%l", string.upper))
  end
  return patterns[event]
end

---@param session pi.Session
---@param event table
function M.tell(session, event)
  for _, name in ipairs({ event.type, "*" }) do
    for _, fn in vim.spairs(listeners[name] or {}) do
      local ok, err = xpcall(fn, debug.traceback, event, session)
      if not ok then
        vim.notify("pi: " .. tostring(err), vim.log.levels.ERROR)
      end
    end
  end
  -- Most events have nobody who waits for them, and some come a thousand times a second.
  local pattern = M.pattern(event.type)
  if vim.fn.exists("#User#" .. pattern) == 1 then
    vim.api.nvim_exec_autocmds("User", {
      pattern = pattern,
      modeline = false,
      data = { session = session.id, event = event },
    })
  end
end

return M
