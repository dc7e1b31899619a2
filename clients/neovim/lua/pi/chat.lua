---The chat of a session: the buffer that shows it, the prompt below it, their windows and keys.
---
---What other modules call: `open`, `toggle`, `close`, `focus`, `attach`, and `give_back` for a text that a person may
---want to say anew (after a branch or a fork).
local ChatBuffer = require("pi.chat_buffer")
local Prompt = require("pi.prompt")
local highlights = require("pi.highlights")
local links = require("pi.chat_links")
local text = require("pi.render_text")
local windows = require("pi.chat_windows")

---@class pi.Chat
---@field session pi.Session
---@field buffer pi.ChatBuffer
---@field prompt pi.Prompt
---@field private unsubscribe fun()
---@field private drawn_queue? pi_rpc.Queue what the prompt shows as waiting
local Chat = {}
Chat.__index = Chat

local M = {}

---@type table<pi.Session, pi.Chat>
local all = {}

local function setup()
  if not next(all) then
    highlights.setup()
    windows.setup(vim.api.nvim_create_augroup("pi.chat", {}))
  end
end

---@param session pi.Session
---@return pi.Chat
local function chat_of(session)
  local known = all[session]
  if known and known:_whole() then
    return known
  elseif known then
    known:_end()
  end
  setup()
  local options = require("pi.config").get().chat
  local self = setmetatable({ session = session }, Chat)
  self.buffer = ChatBuffer.new({ open_lines = options.open_lines, thinking = options.thinking }, function()
    self:_changed()
  end, function()
    session:refresh()
  end)
  vim.b[self.buffer.buffer].pi_session = session.key
  self.prompt = Prompt.new(self)
  self:_name()
  self:_map()
  all[session] = self
  self.unsubscribe = session:subscribe(function(event)
    self:_on(event)
  end)
  session:refresh()
  return self
end

---Buffers are called after their session, so that lists of buffers tell them apart.
---@private
function Chat:_name()
  local id = self.session.id:gsub("[^%w-]", ""):sub(-8)
  pcall(vim.api.nvim_buf_set_name, self.buffer.buffer, "pi://" .. id)
  pcall(vim.api.nvim_buf_set_name, self.prompt.buffer, "pi://" .. id .. "/prompt")
end

---Whether the person has deleted none of its buffers, which takes their text, options and keys.
---@private
function Chat:_whole()
  return vim.api.nvim_buf_is_loaded(self.buffer.buffer) and self.prompt:loaded()
end

---@private
function Chat:_end()
  all[self.session] = nil
  self.unsubscribe()
  for _, buffer in ipairs({ self.prompt.buffer, self.buffer.buffer }) do
    if vim.api.nvim_buf_is_valid(buffer) then
      vim.api.nvim_buf_delete(buffer, { force = true })
    end
  end
end

---@private
function Chat:_on(event)
  if event.type == "client_closed" then
    return self:_end()
  elseif event.type == "client_snapshot" then
    event = vim.tbl_extend("keep", { phase = self.session.state.phase }, event)
  elseif event.type == "client_lost" and event.queue then
    self.prompt:take_back(event.queue.items)
  end
  self.buffer:apply(event)
end

---@private
function Chat:_changed()
  if self.drawn_queue ~= self.session.queue and self.prompt:loaded() then
    self.drawn_queue = self.session.queue
    self.prompt:draw()
  end
  windows.redraw_winbar(self.buffer.buffer)
end

-- Keys -------------------------------------------------------------------------------------------------------------

---Go where the cursor points: to a file, or into a fold.
function Chat:follow()
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local line = vim.api.nvim_get_current_line()
  local block, first = self.buffer.view.document:at(row - 1)
  local closed = vim.fn.foldclosed(row) ~= -1
  local link = not closed and links.at(line, column, self.session.state.cwd)
  if not link and first == row - 1 and not closed then
    link = links.of_block(block, self.session.state.cwd)
  end
  if link then
    links.open(link)
  elseif block and block.kind == "earlier" then
    self:all_messages()
  elseif vim.fn.foldlevel(row) > 0 then
    vim.cmd("normal! za")
  end
end

---Draw the whole session, however long.
function Chat:all_messages()
  self.session.message_limit = 1000000
  self.session:refresh()
end

---@param step 1|-1 to the next or the previous message
function Chat:jump(step)
  local row, document = 0, self.buffer.view.document
  local here, target = vim.api.nvim_win_get_cursor(0)[1] - 1, nil
  for _, block in ipairs(document.blocks) do
    row = row + block.lead
    if block.kind == "user" or block.kind == "assistant" then
      if step == -1 and row < here then
        target = row
      elseif step == 1 and row > here and not target then
        target = row
      end
    end
    row = row + document.height(block)
  end
  if target then
    vim.cmd("normal! m'")
    vim.api.nvim_win_set_cursor(0, { target + 1, 0 })
  end
end

---@private
function Chat:_map()
  local function map(lhs, desc, action)
    if lhs ~= "" then
      vim.keymap.set("n", lhs, action, { buffer = self.buffer.buffer, desc = "pi: " .. desc, nowait = true })
    end
  end
  local keys = require("pi.config").get().chat.keys
  for _, lhs in ipairs({ keys.follow, "gf" }) do
    map(lhs, "open the file under the cursor, or the fold", function()
      self:follow()
    end)
  end
  map(keys.stop, "stop, and take back what waits", function()
    self.prompt:stop()
  end)
  map("]]", "the next message", function()
    self:jump(1)
  end)
  map("[[", "the message before", function()
    self:jump(-1)
  end)
  for _, lhs in ipairs({ "i", "a", "o", "I", "A", "O" }) do
    map(lhs, "write", function()
      M.focus(self.session)
    end)
  end
end

-- The line above the chat ------------------------------------------------------------------------------------------

local PHASES = {
  turn = "working",
  compaction = "compacting",
  branch_summary = "summing up the branch",
  retry = "waiting to try again",
}

---What goes on, in words.
---@return string? words
---@return string? group
function Chat:status()
  local status, session = self.buffer.view.status, self.session
  if session.lost then
    return "the daemon is gone", "PiError"
  elseif require("pi.attention").count(session.id) > 0 then
    return "waits for :Pi answer", "PiWarning"
  elseif status.retry then
    local retry = status.retry
    return ("try %d of %d in %s: %s"):format(
      retry.attempt,
      retry.maxAttempts,
      text.duration(retry.delayMs),
      retry.errorMessage
    ),
      "PiWarning"
  elseif status.phase then
    return PHASES[status.phase] or status.phase, "PiRunning"
  elseif session.readonly then
    return "to look only", "PiWarning"
  end
end

---What the session is and has used, as much of it as fits.
---@param room integer cells
---@return string
function Chat:_about(room)
  local state = self.session.state
  local usage = state.contextUsage
  -- From what goes first where there is no room to what stays.
  local parts = {
    state.name or vim.fn.fnamemodify(state.cwd, ":t"),
    state.cost > 0 and ("$%.2f"):format(state.cost) or "",
    state.model and state.model.id or "no model",
    usage and usage.percent and ("%d%% of context"):format(math.floor(usage.percent + 0.5)) or "",
  }
  parts = vim.tbl_filter(function(part)
    return part ~= ""
  end, parts)
  while #parts > 0 and vim.fn.strwidth(table.concat(parts, " · ")) > room do
    table.remove(parts, 1)
  end
  return table.concat(parts, " · ")
end

---@return string
function M.winbar()
  local buffer = vim.api.nvim_get_current_buf()
  local function plain(words)
    return (words:gsub("%s+", " "):gsub("%%", "%%%%"))
  end
  for _, self in pairs(all) do
    if self.buffer.buffer == buffer then
      local words, group = self:status()
      local status = words and ("● %s "):format(words) or ""
      local about = self:_about(vim.api.nvim_win_get_width(0) - vim.fn.strwidth(status) - 4)
      local format = "%%#PiAssistant# pi %%#PiDetail#%s%%=%%#%s#%%<%s"
      return format:format(plain(about), group or "PiDetail", plain(status))
    end
  end
  return ""
end

-- What others call -------------------------------------------------------------------------------------------------

---Show the chat of a session in this tab, and go to its prompt.
---@param session pi.Session
---@param options? {layout?: string}
function M.open(session, options)
  local chat = chat_of(session)
  local layout = options and options.layout or require("pi.config").get().chat.layout
  local ok, window = pcall(windows.show, layout, chat.buffer.buffer, chat.prompt.buffer)
  if not ok then
    windows.close()
    if not tostring(window):find("E36:", 1, true) then
      error(window, 0)
    end
    return vim.notify("pi: there is no room here for the chat", vim.log.levels.WARN)
  end
  vim.api.nvim_set_current_win(window)
  vim.cmd("startinsert!")
end

---Go to the prompt of a session, shown if it is not.
---@param session pi.Session
function M.focus(session)
  M.open(session)
end

---Close the chat of this tab; the session goes on.
function M.close()
  vim.cmd.stopinsert()
  windows.close()
end

---@param session pi.Session
function M.toggle(session)
  if windows.find("chat") then
    M.close()
  else
    M.open(session)
  end
end

---Attach something to what is written next.
---@param session pi.Session
---@param ... table attachments
function M.attach(session, ...)
  chat_of(session).prompt:attach(...)
end

---Put a text into the prompt, before what is written there.
---@param session pi.Session
---@param given string
---@param attached? table[]
function M.give_back(session, given, attached)
  chat_of(session).prompt:give_back(given, attached)
end

---Send what is written, or a text.
---@param session pi.Session
---@param how? "steer"|"followUp"
function M.send(session, how)
  chat_of(session).prompt:send(how or "steer")
end

---Run a command of the person's own.
---@param session pi.Session
---@param command string
---@param private boolean not for the model
function M.run(session, command, private)
  chat_of(session).prompt:run(command, private)
end

---@param session pi.Session
function M.stop(session)
  chat_of(session).prompt:stop()
end

---@param session pi.Session
function M.detach(session)
  chat_of(session).prompt:detach()
end

---The chat of a session, for tests and people's own code.
---@param session pi.Session
---@return pi.Chat
function M.of(session)
  return chat_of(session)
end

return M
