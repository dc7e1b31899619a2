---Keys of providers: which are there, setting one, removing one. A key is never shown.
local M = {}

local HOW = {
  { field = "apiKey", words = "Type the key", prompt = "Key: ", secret = true },
  { field = "apiKeyEnv", words = "Name an environment variable", prompt = "Variable: " },
  { field = "apiKeyCommand", words = "Name a command that prints it", prompt = "Command: " },
}

---@param session pi.Session
---@param provider string
local function set(session, provider)
  vim.ui.select(HOW, {
    prompt = "Key of " .. provider,
    kind = "pi.auth",
    format_item = function(how)
      return how.words
    end,
  }, function(how)
    if not how then
      return
    end
    local function send(value)
      if value and value ~= "" then
        session:request("auth/set", { provider = provider, [how.field] = value }, function(err)
          if err then
            return session:complain(err)
          end
          vim.notify("pi: " .. provider .. " has a key now")
        end)
      end
    end
    if how.secret then
      local ok, value = pcall(vim.fn.inputsecret, how.prompt)
      return send(ok and value or nil)
    end
    vim.ui.input({ prompt = how.prompt }, send)
  end)
end

---@param session pi.Session
---@param provider? string
function M.choose(session, provider)
  if provider and provider ~= "" then
    return set(session, provider)
  end
  session:request("auth/status", nil, function(err, result)
    if err then
      return session:complain(err)
    end
    vim.ui.select(result.providers, {
      prompt = "Providers",
      kind = "pi.provider",
      format_item = function(each)
        local how = each.usable and ("usable, from %s"):format(each.source) or (each.problem or "no key")
        return ("%s (%s)"):format(each.name, how)
      end,
    }, function(each)
      if not each then
        return
      elseif each.source == "none" then
        return set(session, each.provider)
      end
      vim.ui.select({ "Set another key", "Remove the key" }, { prompt = each.provider }, function(_, index)
        if index == 1 then
          set(session, each.provider)
        elseif index == 2 then
          session:request("auth/remove", { provider = each.provider }, function(problem, removed)
            if problem then
              return session:complain(problem)
            end
            vim.notify("pi: " .. (removed.removed and "the key was removed" or "nothing of ours was stored"))
          end)
        end
      end)
    end)
  end)
end

return M
