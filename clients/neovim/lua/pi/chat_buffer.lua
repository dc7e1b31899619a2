---A buffer that shows a session, kept up with its events once per screen refresh.
---
---Owns the buffer, its marks, and following the end. Does not own what is shown (`pi.render`) nor windows
---(`pi.chat_windows`).
local View = require("pi.render")
local folds = require("pi.folds")
local highlights = require("pi.highlights")
local marks = require("pi.render_marks")

---@class pi.ChatBuffer
---@field buffer integer
---@field view pi.View
---@field private changed fun() called after it was drawn
local ChatBuffer = {}
ChatBuffer.__index = ChatBuffer

local FRAME_MS = 16
---Extmarks of a block are numbered from its own number on; none has more than a long diff's.
local MARKS_OF_BLOCK = 100000

local namespace = vim.api.nvim_create_namespace("pi.chat")
---@type table<integer, pi.ChatBuffer>
local all = {}

---@param buffer integer
---@return pi.ChatBuffer?
function ChatBuffer.of(buffer)
  return all[buffer]
end

local function new_buffer()
  local buffer = vim.api.nvim_create_buf(false, true)
  local options = { bufhidden = "hide", modifiable = false, undolevels = -1, swapfile = false, filetype = "pi-chat" }
  for name, value in pairs(options) do
    vim.api.nvim_set_option_value(name, value, { buf = buffer })
  end
  highlights.markdown(buffer)
  return buffer
end

---@param options table of `pi.View`
---@param changed fun() called after each drawing
---@param emptied fun() called when the person has had it read again (`:edit`): a snapshot is wanted
---@return pi.ChatBuffer
function ChatBuffer.new(options, changed, emptied)
  local self = setmetatable({
    buffer = new_buffer(),
    view = View.new(options),
    changed = changed,
    marked = {},
    drawn_at = 0,
  }, ChatBuffer)
  all[self.buffer] = self
  vim.api.nvim_create_autocmd("BufWinEnter", {
    buffer = self.buffer,
    desc = "pi: folds of a window that begins to show a chat",
    callback = function()
      folds.refresh(vim.api.nvim_get_current_win())
    end,
  })
  vim.api.nvim_create_autocmd("BufUnload", {
    buffer = self.buffer,
    callback = function()
      self:close()
    end,
  })
  vim.api.nvim_create_autocmd("BufReadCmd", {
    buffer = self.buffer,
    callback = function()
      all[self.buffer], self.closed = self, false
      emptied()
    end,
  })
  return self
end

---Nothing is drawn any more.
function ChatBuffer:close()
  all[self.buffer] = nil
  self.closed = true
end

---Follow an event; it is drawn with the others of this screen refresh.
---@param event table
function ChatBuffer:apply(event)
  self.view:apply(event)
  if not self.waiting and not self.closed then
    self.waiting = true
    local since = vim.uv.now() - self.drawn_at
    vim.defer_fn(function()
      self.waiting = false
      self:draw()
    end, math.max(0, FRAME_MS - since))
  end
end

---Draw now what has changed.
function ChatBuffer:draw()
  if self.closed or not vim.api.nvim_buf_is_loaded(self.buffer) then
    return
  end
  local changes = self.view:take()
  if changes then
    self:_write(changes)
  end
  self.drawn_at = vim.uv.now()
  self.changed()
end

---Windows whose cursor is at the end: they go along with it.
---@private
function ChatBuffer:_followers()
  local last = vim.api.nvim_buf_line_count(self.buffer)
  return vim.tbl_filter(function(window)
    return vim.api.nvim_win_get_cursor(window)[1] >= last
  end, vim.fn.win_findbuf(self.buffer))
end

---@private
---@param changes pi.Changes
function ChatBuffer:_write(changes)
  local buffer, document = self.buffer, self.view.document
  local followers = self:_followers()
  vim.bo[buffer].modifiable = true
  if changes.cleared then
    vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, {})
    self.marked = {}
  end
  for _, edit in ipairs(changes.edits) do
    if edit.column then
      vim.api.nvim_buf_set_text(buffer, edit.row, edit.column, edit.end_row, edit.end_column, edit.lines)
    else
      vim.api.nvim_buf_set_lines(buffer, edit.row, edit.row, true, edit.lines)
    end
  end
  vim.bo[buffer].modifiable = false
  if changes.cleared then
    highlights.parse(buffer)
  end
  for block in pairs(changes.touched) do
    if not block.gone then
      self:_mark(block)
    end
  end
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    if changes.cleared then
      folds.apply_all(window, document)
    elseif next(changes.folds) then
      folds.apply(window, document, changes.folds, vim.tbl_contains(followers, window))
    end
  end
  local last = vim.api.nvim_buf_line_count(buffer)
  for _, window in ipairs(followers) do
    vim.api.nvim_win_set_cursor(window, { last, 0 })
  end
end

---@private
---@param block pi.Block
function ChatBuffer:_mark(block)
  local first = self.view.document:row(block)
  local wanted = marks.marks(block, self.view.document.height(block))
  local base = block.n * MARKS_OF_BLOCK
  for i, mark in ipairs(wanted) do
    local row, column = first + mark.row, mark.column
    mark.id = base + i
    mark.end_row = mark.end_row and first + mark.end_row
    mark.end_col, mark.row, mark.column, mark.end_column = mark.end_column, nil, nil, nil
    mark.strict = false
    vim.api.nvim_buf_set_extmark(self.buffer, namespace, row, column, mark)
  end
  for i = #wanted + 1, self.marked[block.n] or 0 do
    vim.api.nvim_buf_del_extmark(self.buffer, namespace, base + i)
  end
  self.marked[block.n] = #wanted
end

return ChatBuffer
