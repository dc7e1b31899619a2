---Choosing by `vim.ui.select`: sessions, models, thinking levels, permission modes, commands, what waits in the queue.
local M = {}

local plain = require("pi.plain")

---@param each pi_rpc.SessionSummary
---@return string
local function session_line(each)
  local title = each.name or (each.firstMessage ~= "" and each.firstMessage) or "(nothing said)"
  local state = each.phase and each.phase ~= "idle" and "running"
    or each.open and "open"
    or each.lockedPid and ("open in process " .. each.lockedPid)
  return ("%s  %s  (%d messages%s)"):format(
    plain.time(each.modified),
    plain.line(title, 60),
    each.messageCount,
    state and ", " .. state or ""
  )
end

---@param result pi_rpc.SessionListResult
---@param cwd string?
---@param cursor string?
---@return table[]
local function session_items(result, cwd, cursor)
  local items = vim.tbl_map(function(each)
    return { text = session_line(each), session = each }
  end, result.sessions)
  if result.nextCursor then
    items[#items + 1] = { text = "Older ones…", cursor = result.nextCursor }
  end
  if cwd and not cursor then
    items[#items + 1] = { text = "Sessions of all directories…", everywhere = true }
  end
  return items
end

---Choose a stored session of this directory, and open its chat.
---@param options? { everywhere?: boolean, cursor?: string }
function M.sessions(options)
  options = options or {}
  local cwd = not options.everywhere and vim.fn.getcwd() or nil
  require("pi.daemon").request("session/list", { cwd = cwd, cursor = options.cursor }, function(err, result)
    if err then
      return require("pi.complaints").tell(err)
    end
    vim.ui.select(session_items(result, cwd, options.cursor), {
      prompt = cwd and "Sessions here" or "Sessions",
      kind = "pi.session",
      format_item = function(item)
        return item.text
      end,
    }, function(item)
      if not item then
        return
      elseif item.everywhere then
        return M.sessions({ everywhere = true })
      elseif item.cursor then
        return M.sessions({ everywhere = options.everywhere, cursor = item.cursor })
      end
      require("pi.sessions").open({ sessionId = item.session.sessionId }, function(problem, session)
        if problem then
          return require("pi.complaints").tell(problem)
        end
        require("pi.chat").open(session)
      end)
    end)
  end)
end

---Open the session of this directory that was used last.
function M.resume()
  require("pi.daemon").request("session/list", { cwd = vim.fn.getcwd(), limit = 1 }, function(err, result)
    if err then
      return require("pi.complaints").tell(err)
    elseif #result.sessions == 0 then
      return vim.notify("pi: there is no session of this directory")
    end
    require("pi.sessions").open({ sessionId = result.sessions[1].sessionId }, function(problem, session)
      if problem then
        return require("pi.complaints").tell(problem)
      end
      require("pi.chat").open(session)
    end)
  end)
end

---@param session pi.Session
---@param name? string "provider/id"; without it the person chooses
function M.model(session, name)
  if name then
    return session:configure({ model = name })
  end
  session:request("model/list", nil, function(err, result)
    if err then
      return session:complain(err)
    end
    local usable = vim.tbl_filter(function(model)
      return model.authenticated
    end, result.models)
    if #usable == 0 then
      return vim.notify("pi: no provider has a key; `:Pi auth` sets one", vim.log.levels.WARN)
    end
    local now = session.state.model
    vim.ui.select(usable, {
      prompt = "Model",
      kind = "pi.model",
      format_item = function(model)
        local chosen = now and now.provider == model.provider and now.id == model.id
        return ("%s%s/%s  (%d k tokens)"):format(
          chosen and "* " or "",
          model.provider,
          model.id,
          math.floor(model.contextWindow / 1000)
        )
      end,
    }, function(model)
      if model then
        session:configure({ model = { provider = model.provider, id = model.id } })
      end
    end)
  end)
end

---@param session pi.Session
---@param field string of `session/configure`
---@param words { value: string, text: string }[]
---@param prompt string
local function setting(session, field, words, prompt)
  vim.ui.select(words, {
    prompt = prompt,
    kind = "pi." .. field,
    format_item = function(item)
      return (session.state[field] == item.value and "* " or "") .. item.text
    end,
  }, function(item)
    if item then
      session:configure({ [field] = item.value })
    end
  end)
end

M.MODES = {
  { value = "ask", text = "ask: about every change and command" },
  { value = "edits", text = "edits: files of the project are changed unasked, commands are asked about" },
  { value = "full", text = "full: nothing is asked" },
  { value = "readonly", text = "readonly: nothing is changed, no command runs" },
}

---@param session pi.Session
---@param mode? string
function M.mode(session, mode)
  if mode then
    return session:configure({ permissionMode = mode })
  end
  setting(session, "permissionMode", M.MODES, "What may it do unasked?")
end

---@param session pi.Session
---@param level? string
function M.thinking(session, level)
  if level then
    return session:configure({ thinkingLevel = level })
  end
  local levels = session.state.model and session.state.model.thinkingLevels or {}
  if #levels == 0 then
    return vim.notify("pi: this model has no thinking levels")
  end
  local words = vim.tbl_map(function(each)
    return { value = each, text = each }
  end, levels)
  setting(session, "thinkingLevel", words, "How much should it think?")
end

---Choose a template, skill or command of an extension; it is put into the prompt.
---@param session pi.Session
function M.commands(session)
  session:request("command/list", nil, function(err, result)
    if err then
      return session:complain(err)
    elseif #result.commands == 0 then
      return vim.notify("pi: there are no templates, skills or commands of extensions here")
    end
    vim.ui.select(result.commands, {
      prompt = "Commands",
      kind = "pi.command",
      format_item = function(command)
        return ("/%s  %s"):format(command.name, plain.line(command.description or "", 80))
      end,
    }, function(command)
      if command then
        require("pi.chat").open(session)
        require("pi.chat").give_back(session, "/" .. command.name .. " ")
      end
    end)
  end)
end

---What waits for the run that goes on: one chosen is taken out, and put back into the prompt.
---@param session pi.Session
function M.queue(session)
  if #session.queue.items == 0 then
    return vim.notify("pi: nothing waits")
  end
  vim.ui.select(session.queue.items, {
    prompt = "What waits (choose one to take it back)",
    kind = "pi.queue",
    format_item = function(item)
      return ("%s: %s"):format(item.kind, plain.line(item.text, 100))
    end,
  }, function(item)
    if not item then
      return
    end
    session:unqueue(item.id, function(err, result)
      if err then
        return session:complain(err)
      elseif result.items[1] then
        require("pi.chat").open(session)
        require("pi.chat").give_back(session, result.items[1].text, result.items[1].attachments)
      end
    end)
  end)
end

return M
