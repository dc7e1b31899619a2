---What a session used, and a session as a file.
local M = {}

---@param session pi.Session
function M.stats(session)
  session:request("session/stats", nil, function(err, stats)
    if err then
      return session:complain(err)
    end
    local tokens, context = stats.tokens, stats.contextUsage
    local lines = {
      ("pi: %s"):format(session.state.name or session.id),
      ("%d messages, %d tool calls"):format(stats.totalMessages, stats.toolCalls),
      ("%d tokens in, %d out, %d read from the cache"):format(tokens.input, tokens.output, tokens.cacheRead),
      ("$%.4f"):format(stats.cost),
    }
    if context and context.percent then
      lines[#lines + 1] = ("context %d%% of %d"):format(context.percent, context.contextWindow)
    end
    vim.notify(table.concat(lines, "\n"))
  end)
end

local FORMATS = { md = "markdown", html = "html", jsonl = "jsonl" }

---@param session pi.Session
---@param name string a file; empty for a new one that is named after the session
---@param overwrite? boolean
function M.export(session, name, overwrite)
  local path = name ~= "" and vim.fn.fnamemodify(name, ":p") or nil
  local format = path and FORMATS[vim.fn.fnamemodify(path, ":e")] or "html"
  local params = { format = format, path = path, overwrite = overwrite or nil }
  session:request("session/export", params, function(err, done)
    if err then
      return session:complain(err)
    end
    vim.notify("pi: written to " .. done.path)
  end)
end

return M
