---What code of the person's extensions wants to know or show: `ui/*`, carried out with `vim.ui` and `vim.notify`.
---The questions wait in the attention queue, as all questions do; dismissing one answers it as cancelled.
local M = {}

local attention = require("pi.attention")
local plain = require("pi.plain")

local CANCELLED = { cancelled = true }

---@param params table
---@param answer fun(result: table?)
---@param ask fun(title: string, done: fun(result: table), question: pi.Question)
local function add(params, answer, ask)
  local title = plain.line(params.title, 200)
  if params.message and params.message ~= "" then
    title = title .. " – " .. plain.line(params.message, 300)
  end
  attention.add({
    request_id = params.requestId,
    session_id = params.sessionId,
    title = plain.line(params.title, 80),
    answer = answer,
    show = function(question)
      ask(title, function(result)
        attention.settle(question, result)
      end, question)
    end,
  })
end

---@param params pi_rpc.UiSelectParams
function M.select(params, answer)
  add(params, answer, function(title, done)
    vim.ui.select(params.options, {
      prompt = title,
      kind = "pi.select",
      format_item = function(option)
        local more = option.description and " – " .. option.description or ""
        return plain.line(option.label .. more, 200)
      end,
    }, function(option)
      done(option and { value = option.value } or CANCELLED)
    end)
  end)
end

---@param params pi_rpc.UiConfirmParams
function M.confirm(params, answer)
  add(params, answer, function(title, done)
    vim.ui.select({ true, false }, {
      prompt = title,
      kind = "pi.confirm",
      format_item = function(yes)
        return yes and "Yes" or "No"
      end,
    }, function(yes)
      done(yes ~= nil and { confirmed = yes } or CANCELLED)
    end)
  end)
end

---@param params pi_rpc.UiInputParams
function M.input(params, answer)
  add(params, answer, function(title, done)
    if params.secret then
      -- `vim.ui.input` would show what is typed.
      local ok, value = pcall(vim.fn.inputsecret, title .. ": ")
      return done(ok and value ~= "" and { value = value } or CANCELLED)
    end
    vim.ui.input({ prompt = title .. ": ", default = params.prefill }, function(value)
      done(value ~= nil and { value = value } or CANCELLED)
    end)
  end)
end

---@param params pi_rpc.UiEditorParams
function M.editor(params, answer)
  add(params, answer, function(title, done, question)
    local function settle(result)
      if not question.over then
        done(result)
      end
    end
    vim.cmd("botright new")
    local buffer = vim.api.nvim_get_current_buf()
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(params.prefill or "", "\n", { plain = true }))
    vim.api.nvim_buf_set_name(buffer, "pi-editor://" .. params.requestId)
    vim.bo[buffer].buftype, vim.bo[buffer].bufhidden, vim.bo[buffer].swapfile = "acwrite", "wipe", false
    vim.bo[buffer].modified = false
    vim.wo[0].winbar = (title .. "   :w answers, :q! cancels"):gsub("%%", "%%%%")
    question.focus = function()
      local window = vim.fn.win_findbuf(buffer)[1]
      if window then
        vim.api.nvim_set_current_win(window)
      else
        vim.cmd("botright sbuffer " .. buffer)
      end
    end
    question.hide = vim.schedule_wrap(function()
      pcall(vim.api.nvim_buf_delete, buffer, { force = true })
    end)
    vim.api.nvim_create_autocmd("BufWriteCmd", {
      buffer = buffer,
      callback = function()
        vim.bo[buffer].modified = false
        settle({ value = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n") })
      end,
    })
    vim.api.nvim_create_autocmd("BufWipeout", {
      buffer = buffer,
      callback = function()
        settle(CANCELLED)
      end,
    })
  end)
end

local LEVELS = {
  debug = vim.log.levels.DEBUG,
  info = vim.log.levels.INFO,
  warning = vim.log.levels.WARN,
  error = vim.log.levels.ERROR,
}

---@param params pi_rpc.UiNotifyParams
function M.notify(params)
  vim.notify("pi: " .. table.concat(plain.lines(params.message), "\n"), LEVELS[params.level] or vim.log.levels.INFO)
end

---@type table<string, table<string, string>> texts by session and key
local statuses = {}

---@param params pi_rpc.UiStatusParams
function M.status(params)
  local of_session = statuses[params.sessionId or ""] or {}
  statuses[params.sessionId or ""] = of_session
  of_session[params.key] = params.text and params.text ~= "" and plain.line(params.text, 40) or nil
  vim.cmd.redrawstatus({ bang = true })
end

---The daemon is gone, and with it those who wanted something shown.
function M.clear()
  statuses = {}
end

---What extensions want to be shown for a session, by key.
---@param session_id string
---@return string[]
function M.statuses(session_id)
  local texts = {}
  for _, id in ipairs({ "", session_id }) do
    for _, text in vim.spairs(statuses[id] or {}) do
      texts[#texts + 1] = text
    end
  end
  return texts
end

return M
