---What the agent wants to do and may not do unasked: shown whole, and decided by `vim.ui.select`.
local M = {}

local attention = require("pi.attention")
local plain = require("pi.plain")

-- Kinds of options in their order; an option of a kind that is not here is left out, not guessed at.
local KINDS = { allow_once = 1, allow_session = 2, allow_always = 3, reject_once = 4, reject_always = 5 }

---@param old string
---@param new string
---@return string
local function diff(old, new)
  local compare = vim.text and vim.text.diff or vim.diff
  return compare(old, new, { result_type = "unified", ctxlen = 3 }) --[[@as string]]
end

---Everything that is asked about, for people.
---@param params pi_rpc.PermissionRequestParams
---@return string[] lines, string filetype
function M.details(params)
  local lines, filetype = {}, ""
  local function add(text)
    vim.list_extend(lines, plain.lines(text))
  end
  if params.edits then
    filetype = "diff"
    for _, edit in ipairs(params.edits) do
      add(
        ("--- %s\n+++ %s"):format(edit.isNew and "/dev/null" or vim.uri_to_fname(edit.uri), vim.uri_to_fname(edit.uri))
      )
      if require("pi.review").lacks_original(edit) then
        add("(what is there now is no text, or too large to be shown)")
      end
      add((diff(edit.oldText or "", edit.newText):gsub("\n$", "")))
    end
  elseif type(params.args) == "table" and type(params.args.command) == "string" then
    add("$ " .. params.args.command)
  else
    add(params.title)
    for name, value in vim.spairs(params.args or {}) do
      add(("%s: %s"):format(name, type(value) == "string" and value or vim.json.encode(value)))
    end
  end
  if params.reason then
    add("\n" .. params.reason)
  end
  return lines, filetype
end

---Show what is asked about above the choice. The window takes no focus; what does not fit can be opened.
---@param lines string[]
---@param filetype string
---@return fun() close, boolean whole
local function preview(lines, filetype)
  local width = math.max(20, math.min(100, vim.o.columns - 4))
  local height = math.max(1, math.min(#lines, math.floor(vim.o.lines / 2) - 2))
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = "wipe"
  vim.bo[buffer].syntax = filetype
  local window = vim.api.nvim_open_win(buffer, false, {
    relative = "editor",
    row = 1,
    col = math.floor((vim.o.columns - width) / 2),
    width = width,
    height = height,
    style = "minimal",
    border = "single",
    title = " pi asks ",
    focusable = false,
    noautocmd = true,
  })
  vim.wo[window].wrap = true
  local rows = vim.api.nvim_win_text_height(window, {}).all
  local room = math.max(1, math.floor(vim.o.lines / 2) - 2)
  vim.api.nvim_win_set_height(window, math.min(rows, room))
  return function()
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
  end,
    rows <= room
end

---@param params pi_rpc.PermissionRequestParams
---@param whole boolean
---@return { text: string, option?: table, act?: string }[]
local function choices(params, whole)
  local items = {}
  if params.edits then
    items[#items + 1] = { text = "Review the change, and change it", act = "review" }
  elseif not whole then
    items[#items + 1] = { text = "Show all of it", act = "show" }
  end
  local options = vim.tbl_filter(function(option)
    return KINDS[option.kind] ~= nil
  end, params.options)
  for _, option in ipairs(options) do
    local rule = option.rule and ": " .. plain.line(option.rule, 120) or ""
    items[#items + 1] = { text = option.name .. rule, option = option }
    if option.kind == "reject_once" then
      items[#items + 1] = { text = "Reject, and say why", act = "reject", option = option }
    end
  end
  items[#items + 1] = { text = "Decide later", act = "later" }
  return items
end

---@param question pi.Question
---@param lines string[]
---@param filetype string
local function show_all(question, lines, filetype)
  attention.later(question)
  vim.cmd("botright new")
  vim.api.nvim_buf_set_lines(0, 0, -1, false, lines)
  vim.bo.buftype, vim.bo.bufhidden, vim.bo.swapfile = "nofile", "wipe", false
  vim.bo.modified, vim.bo.modifiable, vim.bo.syntax = false, false, filetype
  vim.notify("pi: `:Pi answer` decides")
end

---Reject with a word; without an answer nothing is decided.
---@param question pi.Question
---@param option table
function M.reject(question, option)
  vim.ui.input({ prompt = "Why not? (the agent reads it): " }, function(word)
    if word == nil then
      return attention.later(question)
    end
    attention.settle(question, { optionId = option.id, feedback = word ~= "" and word or nil })
  end)
end

---@param params pi_rpc.PermissionRequestParams
---@param kind string
---@return table?
function M.option(params, kind)
  for _, option in ipairs(params.options) do
    if option.kind == kind then
      return option
    end
  end
end

---@param params pi_rpc.PermissionRequestParams
local function show(params)
  ---@param question pi.Question
  return function(question)
    local lines, filetype = M.details(params)
    local close, whole = preview(lines, filetype)
    question.hide = close
    vim.cmd.redraw()
    vim.ui.select(choices(params, whole), {
      prompt = "pi: " .. plain.line(params.title, vim.o.columns - 10),
      kind = "pi.permission",
      format_item = function(item)
        return item.text
      end,
    }, function(item)
      close()
      if question.over or not item or item.act == "later" then
        return attention.later(question)
      elseif item.act == "review" then
        return require("pi.review").open(question, params)
      elseif item.act == "show" then
        return show_all(question, lines, filetype)
      elseif item.act == "reject" then
        return M.reject(question, item.option)
      end
      attention.settle(question, { optionId = item.option.id })
    end)
  end
end

---@param params pi_rpc.PermissionRequestParams
---@param answer pi.Respond
function M.ask(params, answer)
  attention.add({
    request_id = params.requestId,
    session_id = params.sessionId,
    title = plain.line(params.title, 80),
    show = show(params),
    answer = answer,
  })
end

---What was answered for longer than once, to be looked at and forgotten.
---@param session pi.Session
function M.list(session)
  session:request("permission/list", { cwd = session.state.cwd }, function(err, result)
    if err then
      return session:complain(err)
    end
    if #result.rules == 0 then
      return vim.notify("pi: no rule holds here but those of the mode " .. session.state.permissionMode)
    end
    vim.ui.select(result.rules, {
      prompt = "Rules (choose a remembered one to forget it)",
      kind = "pi.rule",
      format_item = function(rule)
        return ("%s %s (%s)"):format(rule.effect, plain.line(rule.words or rule.rule, 100), rule.source)
      end,
    }, function(rule)
      if rule and rule.id then
        session:request("permission/forget", { id = rule.id, cwd = session.state.cwd })
      elseif rule then
        vim.notify("pi: this rule stands in the settings")
      end
    end)
  end)
end

return M
