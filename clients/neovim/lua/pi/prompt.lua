---The buffer in which a person writes to a session.
---
---Owns the text, its history, what is attached to it, and its keys. What is typed goes to the session:
---`!command` as a command of the person (`!!command` without the model reading it), the rest as a prompt, which
---steers while a run goes on.
local attachments = require("pi.attachments")

---@class pi.Prompt
---@field chat pi.Chat
---@field buffer integer
---@field session pi.Session
---@field attached table[]
---@field private view pi.View whose `asked` is the history
---@field private back integer how far back in the history the text is from; 0: it is the person's own
---@field private draft? string what was written before the history was looked at
local Prompt = {}
Prompt.__index = Prompt

local namespace = vim.api.nvim_create_namespace("pi.prompt")
local commands = 0
---@type table<integer, pi.Prompt>
local all = {}

---@param buffer integer
---@return pi.Prompt?
function Prompt.of(buffer)
  return all[buffer]
end

local function typed(keys)
  -- Before what has been typed since.
  vim.api.nvim_feedkeys(vim.keycode(keys), "ni", false)
end

---@param chat pi.Chat
---@return pi.Prompt
function Prompt.new(chat)
  local buffer = vim.api.nvim_create_buf(false, true)
  local self = setmetatable({
    buffer = buffer,
    chat = chat,
    session = chat.session,
    view = chat.buffer.view,
    attached = {},
    back = 0,
  }, Prompt)
  all[buffer] = self
  local options = {
    bufhidden = "hide",
    swapfile = false,
    filetype = "pi-prompt",
    omnifunc = "v:lua.require'pi.completion'.omnifunc",
    completeopt = "menuone,noinsert",
  }
  for name, value in pairs(options) do
    vim.api.nvim_set_option_value(name, value, { buf = buffer })
  end
  vim.b[buffer].pi_session = chat.session.key
  require("pi.highlights").markdown(buffer)
  self:_map()
  vim.api.nvim_create_autocmd({ "TextChanged", "TextChangedI", "TextChangedP" }, {
    buffer = buffer,
    callback = function(event)
      self:draw()
      if event.event ~= "TextChanged" then
        require("pi.completion").typed(self, require("pi.config").get().prompt.complete)
      end
    end,
  })
  vim.api.nvim_create_autocmd("BufWipeout", {
    buffer = buffer,
    callback = function()
      all[buffer] = nil
    end,
  })
  self:draw()
  return self
end

---@return boolean whether the person has not deleted its buffer
function Prompt:loaded()
  return vim.api.nvim_buf_is_loaded(self.buffer)
end

---@return string
function Prompt:text()
  return table.concat(vim.api.nvim_buf_get_lines(self.buffer, 0, -1, false), "\n")
end

---Put a text in place of what is there, the cursor at its end.
---@param text string
function Prompt:set(text)
  local lines = vim.split(text, "\n", { plain = true })
  vim.api.nvim_buf_set_lines(self.buffer, 0, -1, false, lines)
  for _, window in ipairs(vim.fn.win_findbuf(self.buffer)) do
    vim.api.nvim_win_set_cursor(window, { #lines, #lines[#lines] })
  end
  self:draw()
end

---Put a text before what is there: nothing that was written is lost, also where this buffer is deleted meanwhile.
---@param text string
---@param attached? table[] those that the text mentions may be among them; they come with it anyway
function Prompt:give_back(text, attached)
  if not self:loaded() then
    return require("pi.chat").give_back(self.session, text, attached)
  end
  local own = self:text()
  self:set(own == "" and text or text == "" and own or text .. "\n\n" .. own)
  local mentioned = attachments.mentioned(text, self.session.state.cwd)
  self:attach(unpack(vim.tbl_filter(function(attachment)
    return not vim.tbl_contains(mentioned, function(each)
      return vim.deep_equal(each, attachment)
    end, { predicate = true })
  end, attached or {})))
end

---@param ... table
function Prompt:attach(...)
  vim.list_extend(self.attached, { ... })
  self:draw()
end

---Take an attachment off again: the only one, or one that is chosen.
function Prompt:detach()
  local function remove(index)
    if index then
      table.remove(self.attached, index)
      self:draw()
    end
  end
  if #self.attached < 2 then
    return remove(#self.attached > 0 and 1 or nil)
  end
  vim.ui.select(self.attached, { prompt = "Take off:", format_item = attachments.label }, function(_, index)
    remove(index)
  end)
end

-- Sending ----------------------------------------------------------------------------------------------------------

---Run a command of the person's own, shown while it runs.
---@param command string
---@param private boolean not for the model
function Prompt:run(command, private)
  commands = commands + 1
  local token = ("nvim-%d-%d"):format(vim.fn.getpid(), commands)
  self.chat.buffer:apply({ type = "client_command", token = token, command = command })
  self.session:bash(command, { token = token, excludeFromContext = private or nil }, function(err)
    if err then
      self.chat.buffer:apply({ type = "client_command_failed", token = token })
      self.session:complain(err)
    end
  end)
end

---Send what is written.
---@param how "steer"|"followUp" what it is while a run goes on
function Prompt:send(how)
  local text = vim.trim(self:text())
  if self.session.readonly then
    vim.notify("pi: this session is open to look only; `:Pi fork` goes on in a copy", vim.log.levels.WARN)
    return
  elseif text == "" and #self.attached == 0 then
    return
  end
  local bangs, command = text:match("^(!!?)%s*(.+)$")
  self.back, self.draft = 0, nil
  if command then
    self:set("")
    return self:run(command, bangs == "!!")
  end
  local attached = self.attached
  local all_attached = vim.list_extend(attachments.mentioned(text, self.session.state.cwd), attached)
  self.attached = {}
  self:set("")
  self.session:prompt(text, {
    attachments = #all_attached > 0 and all_attached or nil,
    streamingBehavior = how,
    wait = "accepted",
  }, function(err)
    if err then
      self:give_back(text, attached)
      self.session:complain(err)
    end
  end)
end

---Stop what goes on, and take back what waited.
function Prompt:stop()
  self.session:abort(function(err, result)
    if err then
      return self.session:complain(err)
    end
    self:take_back(result.items)
  end)
end

---@param items pi_rpc.QueueItem[]
function Prompt:take_back(items)
  local texts, attached = {}, {}
  for _, item in ipairs(items) do
    texts[#texts + 1] = item.text
    vim.list_extend(attached, item.attachments or {})
  end
  if #items > 0 then
    self:give_back(table.concat(texts, "\n\n"), attached)
  end
end

-- History ----------------------------------------------------------------------------------------------------------

---Go through what was said before: 1 is older, -1 newer. What was being written comes back at the end.
---@param step 1|-1
function Prompt:history(step)
  local asked = self.view.asked
  local back = math.max(0, math.min(#asked, self.back + step))
  if back == self.back then
    return
  end
  if self.back == 0 then
    self.draft = self:text()
  end
  self.back = back
  self:set(back == 0 and self.draft or asked[#asked - back + 1])
end

-- Keys -------------------------------------------------------------------------------------------------------------

local function selecting()
  return vim.fn.pumvisible() == 1 and vim.fn.complete_info({ "selected" }).selected >= 0
end

---@private
function Prompt:_map()
  local keys = require("pi.config").get().prompt.keys
  local function map(modes, lhs, desc, action)
    if lhs ~= "" then
      vim.keymap.set(modes, lhs, action, { buffer = self.buffer, desc = "pi: " .. desc, nowait = true })
    end
  end
  map({ "n", "i" }, keys.send, "send, or steer while a run goes on", function()
    if selecting() then
      return typed("<C-y>")
    end
    self:send("steer")
  end)
  map({ "n", "i" }, keys.follow_up, "send for when the run is done", function()
    self:send("followUp")
  end)
  for _, lhs in ipairs({ keys.newline, "<S-CR>" }) do
    map("i", lhs, "a new line", function()
      typed("<CR>")
    end)
  end
  map({ "n", "i" }, keys.stop, "stop, and take back what waits", function()
    if self.session:running() then
      return self:stop()
    end
    typed("<Esc>")
  end)
  map({ "n", "i" }, keys.detach, "take an attachment off", function()
    self:detach()
  end)
  for lhs, step in pairs({ ["<Up>"] = 1, ["<Down>"] = -1 }) do
    map({ "n", "i" }, lhs, "the history, from the first and the last line", function()
      local row = vim.api.nvim_win_get_cursor(0)[1]
      local at_edge = row == (step == 1 and 1 or vim.api.nvim_buf_line_count(self.buffer))
      if vim.fn.pumvisible() == 1 or not at_edge then
        return typed(lhs)
      end
      self:history(step)
    end)
  end
end

-- What is shown around the text ------------------------------------------------------------------------------------

---What waits to be said, below the text, and a hint in an empty prompt.
function Prompt:draw()
  vim.api.nvim_buf_clear_namespace(self.buffer, namespace, 0, -1)
  local waiting = {}
  for _, item in ipairs(self.session.queue.items) do
    local sign = item.kind == "steer" and "steer: " or "follow up: "
    waiting[#waiting + 1] = { { sign, "PiQueued" }, { (item.text:gsub("\n.*", " …")), "PiDetail" } }
  end
  local last = vim.api.nvim_buf_line_count(self.buffer) - 1
  if #waiting > 0 then
    vim.api.nvim_buf_set_extmark(self.buffer, namespace, last, 0, { virt_lines = waiting })
  end
  if last == 0 and vim.api.nvim_buf_get_lines(self.buffer, 0, 1, false)[1] == "" then
    local hint = "Ask, @file, /command or !shell"
    if self.session.readonly then
      hint = "Open to look only"
    end
    vim.api.nvim_buf_set_extmark(self.buffer, namespace, 0, 0, {
      virt_text = { { hint, "PiPlaceholder" } },
      virt_text_pos = "overlay",
    })
  end
  local here = vim.api.nvim_get_current_tabpage()
  for _, window in ipairs(vim.fn.win_findbuf(self.buffer)) do
    if vim.api.nvim_win_get_tabpage(window) == here then
      require("pi.chat_windows").fit(window)
    end
  end
  require("pi.chat_windows").redraw_winbar(self.buffer)
end

---The line above the prompt: what is attached to it.
---@return string
function Prompt.winbar()
  local prompt = all[vim.api.nvim_get_current_buf()]
  if not prompt then
    return ""
  end
  local parts = vim.tbl_map(function(attachment)
    return "%#PiAttachment# + " .. attachments.label(attachment):gsub("%%", "%%%%")
  end, prompt.attached)
  return #parts == 0 and "%#PiDetail# > " or table.concat(parts)
end

return Prompt
