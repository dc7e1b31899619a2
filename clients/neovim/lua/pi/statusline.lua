---What a statusline shows of the session of this place.
local M = {}

local PHASES = { turn = "running", compaction = "compacting", branch_summary = "branching", retry = "waiting to retry" }

---The parts, for people who put them together themselves.
---@param session? pi.Session
---@return table? parts model, context, cost, state, mode (texts), questions (a number), extra (texts)
function M.parts(session)
  session = session or require("pi.sessions").current()
  if not session then
    return nil
  end
  local state = session.state
  local percent = state.contextUsage and state.contextUsage.percent
  local what = PHASES[state.phase] or "idle"
  if session.lost then
    what = "daemon lost"
  elseif session.readonly then
    what = "read-only"
  end
  return {
    model = state.model and state.model.id,
    context = percent and ("%d%%"):format(percent) or nil,
    cost = state.cost and state.cost > 0 and ("$%.2f"):format(state.cost) or nil,
    state = what,
    mode = state.permissionMode,
    questions = package.loaded["pi.attention"] and require("pi.attention").count() or 0,
    extra = package.loaded["pi.ui"] and require("pi.ui").statuses(session.id) or {},
  }
end

---As one text: `pi: sonnet · 12% · $0.03 · running · 1 question`.
---@return string
function M.text()
  local parts = M.parts()
  if not parts then
    return ""
  end
  local shown = { parts.model or "no model" }
  vim.list_extend(shown, { parts.context })
  vim.list_extend(shown, { parts.cost })
  shown[#shown + 1] = parts.state
  if parts.questions > 0 then
    shown[#shown + 1] = parts.questions .. (parts.questions == 1 and " question" or " questions")
  end
  vim.list_extend(shown, parts.extra)
  -- It is put into 'statusline', where a percent sign begins an item.
  return (("pi: " .. table.concat(shown, " · ")):gsub("%%", "%%%%"))
end

return M
