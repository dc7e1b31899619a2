---Looking at an edit before it is written: original left, proposal right, in a tab of their own. The right side may
---be changed by all means of the editor, hunk by hunk or by typing; what it says when it is accepted is written.
local M = {}

local attention = require("pi.attention")

---@class pi.Pane
---@field uri string
---@field proposed string
---@field buffer integer the right side

---@class pi.Review
---@field question pi.Question
---@field params pi_rpc.PermissionRequestParams
---@field panes pi.Pane[]
---@field tabs integer[]

---Put a text into a buffer. An end without a newline is kept in 'endofline'.
---@param buffer integer
---@param text string
local function fill(buffer, text)
  local lines = vim.split(text, "\n", { plain = true })
  local ends = #lines > 1 and lines[#lines] == ""
  if ends then
    lines[#lines] = nil
  end
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].fixendofline = false
  vim.bo[buffer].endofline = ends
  vim.b[buffer].pi_empty = text == ""
end

---@param buffer integer
---@return string
local function text_of(buffer)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  if #lines == 1 and lines[1] == "" and vim.b[buffer].pi_empty then
    return ""
  end
  local ends = vim.bo[buffer].endofline or vim.b[buffer].pi_empty
  return table.concat(lines, "\n") .. (ends and "\n" or "")
end

---@param name string
---@param text string
---@param path string
---@return integer
local function scratch(name, text, path)
  local buffer = vim.api.nvim_create_buf(false, true)
  fill(buffer, text)
  vim.api.nvim_buf_set_name(buffer, name)
  vim.bo[buffer].bufhidden = "wipe"
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].filetype = vim.filetype.match({ filename = path, buf = buffer }) or ""
  return buffer
end

---@param review pi.Review
local function close(review)
  for _, tab in ipairs(review.tabs) do
    if vim.api.nvim_tabpage_is_valid(tab) and #vim.api.nvim_list_tabpages() > 1 then
      for _, window in ipairs(vim.api.nvim_tabpage_list_wins(tab)) do
        pcall(vim.api.nvim_win_close, window, true)
      end
    end
  end
end

---@param review pi.Review
local function accept(review)
  local option = require("pi.permissions").option(review.params, "allow_once")
  if not option then
    return vim.notify("pi: this cannot be allowed once; `:Pi answer` shows what can be answered", vim.log.levels.WARN)
  end
  local edits, changed = {}, false
  for _, pane in ipairs(review.panes) do
    local text = text_of(pane.buffer)
    changed = changed or text ~= pane.proposed
    edits[#edits + 1] = { uri = pane.uri, newText = text }
    vim.bo[pane.buffer].modified = false
  end
  attention.settle(review.question, { optionId = option.id, edits = changed and edits or nil })
end

---@param review pi.Review
local function reject(review)
  local option = require("pi.permissions").option(review.params, "reject_once")
  if option then
    vim.ui.input({ prompt = "Why not? (the agent reads it): " }, function(word)
      if word ~= nil then
        attention.settle(review.question, { optionId = option.id, feedback = word ~= "" and word or nil })
      end
    end)
  end
end

---@param review pi.Review
---@param buffer integer
---@param right boolean
local function map(review, buffer, right)
  ---@type table<string, string>
  local keys = require("pi.config").get().review.keys
  local function set(key, fn, what)
    if key ~= "" then
      vim.keymap.set("n", key, fn, { buffer = buffer, desc = "pi review: " .. what, nowait = true })
    end
  end
  set(keys.accept, function()
    accept(review)
  end, "write the right side")
  set(keys.reject, function()
    reject(review)
  end, "reject")
  if right then
    set(keys.drop, function()
      vim.cmd("diffget | diffupdate")
    end, "take the original of this hunk")
  end
end

---@param window integer
---@param text string
local function bar(window, text)
  vim.wo[window].winbar = (text:gsub("%%", "%%%%"))
end

---@param review pi.Review
---@param edit pi_rpc.PermissionEdit
---@param number integer
local function open_tab(review, edit, number)
  local path = vim.uri_to_fname(edit.uri)
  local name = vim.fn.fnamemodify(path, ":.")
  ---@type table<string, string>
  local keys = require("pi.config").get().review.keys
  local id = ("pi-review://%s/%d/"):format(review.question.request_id, number)
  local left = scratch(id .. "original/" .. name, edit.oldText or "", path)
  local right = scratch(id .. "proposed/" .. name, edit.newText, path)
  vim.bo[left].modifiable = false
  vim.bo[right].buftype = "acwrite"
  vim.bo[right].modified = false
  vim.cmd("tab sbuffer " .. left)
  review.tabs[#review.tabs + 1] = vim.api.nvim_get_current_tabpage()
  local of = edit.isNew and "a new file" or name
  bar(0, ("original of %s%s"):format(of, M.lacks_original(edit) and " (no text, or too large to be shown)" or ""))
  vim.cmd.diffthis()
  vim.cmd("rightbelow vertical sbuffer " .. right)
  vim.cmd.diffthis()
  bar(
    0,
    ("proposed: %s   %s write  %s reject  %s drop hunk  ]c next"):format(name, keys.accept, keys.reject, keys.drop)
  )
  map(review, left, false)
  map(review, right, true)
  vim.api.nvim_create_autocmd("BufWriteCmd", {
    buffer = right,
    callback = function()
      accept(review)
    end,
  })
  -- A tab that is closed decides nothing: the question waits on.
  vim.api.nvim_create_autocmd("BufWipeout", {
    buffer = right,
    callback = function()
      review.question.focus = nil
      if not review.question.over then
        attention.later(review.question)
      end
    end,
  })
  review.panes[#review.panes + 1] = { uri = edit.uri, proposed = edit.newText, buffer = right }
end

---Whether there is something that the daemon does not show: it is no text, or too large.
---@param edit pi_rpc.PermissionEdit
---@return boolean
function M.lacks_original(edit)
  return not edit.isNew and edit.oldText == nil
end

---@param question pi.Question
---@param params pi_rpc.PermissionRequestParams
function M.open(question, params)
  ---@type pi.Review
  local review = { question = question, params = params, panes = {}, tabs = {} }
  for number, edit in ipairs(params.edits) do
    open_tab(review, edit, number)
  end
  local hidden = false
  question.hide = function()
    if not hidden then
      hidden = true
      close(review)
    end
  end
  question.focus = function()
    vim.api.nvim_set_current_tabpage(review.tabs[1])
  end
  vim.api.nvim_set_current_tabpage(review.tabs[1])
  pcall(vim.cmd.normal, { "gg]c", bang = true })
end

return M
