---Whether a project's own settings, skills and templates count.
local M = {}

---@type table<string, boolean> directories that were told of
local told = {}

---Tell, once for each directory, that something waits for a decision.
---@param session pi.Session
function M.look(session)
  local cwd = session.state.cwd
  if told[cwd] then
    return
  end
  told[cwd] = true
  session:request("trust/get", { cwd = cwd }, function(err, result)
    if not err and not result.trusted and #result.needed > 0 then
      local names = table.concat(vim.tbl_map(vim.fs.basename, result.needed), ", ")
      require("pi.complaints").brief(":Pi trust – not trusted yet, and left out: " .. names)
    end
  end)
end

---Ask the person, and tell the daemon.
---@param session pi.Session
function M.decide(session)
  local cwd = session.state.cwd
  session:request("trust/get", { cwd = cwd }, function(err, result)
    if err then
      return session:complain(err)
    end
    local waits = #result.needed > 0 and " (" .. table.concat(result.needed, ", ") .. ")" or ""
    vim.ui.select({ true, false }, {
      prompt = ("Trust %s and what it brings along%s?"):format(cwd, waits),
      kind = "pi.trust",
      format_item = function(yes)
        return (yes and "Trust it" or "Do not trust it") .. (result.trusted == yes and " (as it is)" or "")
      end,
    }, function(yes)
      if yes ~= nil then
        session:request("trust/set", { cwd = cwd, trusted = yes })
      end
    end)
  end)
end

return M
