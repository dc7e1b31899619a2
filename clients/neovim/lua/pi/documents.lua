---Buffers are the truth: the daemon reads, changes and saves open files through the editor.
---
---A document's version is its buffer's changedtick; an edit for another version is refused. An edit is one undo block,
---and touches nothing but what it changes, so that marks, folds and the cursor stay where they are. A buffer that
---is no valid text (bytes that are no UTF-8, NULs) is not read from here: positions in it would mean other places to
---the daemon.
local M = {}

local TYPING_MS = 100

---@type table[]? what the daemon was told
local told
---@type uv.uv_timer_t?
local timer

---Nothing was written into it.
---@param buffer integer
---@return boolean
local function blank(buffer)
  return not vim.bo[buffer].modified
    and vim.api.nvim_buf_line_count(buffer) == 1
    and vim.api.nvim_buf_get_lines(buffer, 0, 1, false)[1] == ""
end

---The URI of a buffer that shows a file. One of a file that does not exist, with nothing in it, shows none.
---@param buffer integer
---@return string?
local function uri_of(buffer)
  if not vim.api.nvim_buf_is_loaded(buffer) or vim.bo[buffer].buftype ~= "" then
    return nil
  end
  local name = vim.api.nvim_buf_get_name(buffer)
  if name == "" or name:match("^%a[%w+.-]+://") then
    return nil
  end
  if blank(buffer) and not vim.uv.fs_stat(name) then
    return nil
  end
  return vim.uri_from_fname(name)
end

---@param uri string
---@return integer?
local function buffer_of(uri)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if uri_of(buffer) == uri then
      return buffer
    end
  end
end

---Whether the last line ends in a newline, in the file that would be written.
---@param buffer integer
---@return boolean
local function ends_in_newline(buffer)
  return vim.bo[buffer].endofline or (vim.bo[buffer].fixendofline and not vim.bo[buffer].binary)
end

---The lines of a buffer; none for an empty file.
---@param buffer integer
---@return string[]
local function lines_of(buffer)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  if #lines == 1 and lines[1] == "" then
    local empty = vim.api.nvim_buf_call(buffer, function()
      return vim.fn.line2byte(2) == -1
    end)
    return empty and {} or lines
  end
  return lines
end

-- Telling the daemon ------------------------------------------------------------------------------

---@return table[]
local function open_documents()
  local documents = {}
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    local uri = uri_of(buffer)
    if uri then
      documents[#documents + 1] = {
        uri = uri,
        version = vim.api.nvim_buf_get_changedtick(buffer),
        dirty = vim.bo[buffer].modified,
      }
    end
  end
  return documents
end

---Tell the daemon what is open, if that has changed since it was told.
function M.flush()
  if not require("pi.daemon").running() then
    return
  end
  local documents = open_documents()
  if not vim.deep_equal(documents, told) then
    told = documents
    require("pi.daemon").notify("editor/didChange", { openDocuments = documents })
  end
end

local function soon(milliseconds)
  timer = timer or assert(vim.uv.new_timer())
  timer:start(milliseconds, 0, vim.schedule_wrap(M.flush))
end

---Watch what is open, for a daemon that has just been started.
function M.watch()
  told = nil
  local group = vim.api.nvim_create_augroup("pi.documents", { clear = true })
  local opened = { "BufReadPost", "BufNewFile", "BufFilePost", "BufUnload", "BufWritePost", "BufModifiedSet" }
  vim.api.nvim_create_autocmd(opened, {
    group = group,
    callback = function()
      soon(0)
    end,
  })
  vim.api.nvim_create_autocmd({ "TextChanged", "TextChangedI" }, {
    group = group,
    callback = function()
      soon(TYPING_MS)
    end,
  })
  M.flush()
end

-- Reading -----------------------------------------------------------------------------------------

---@param params pi_rpc.ReadDocumentParams
---@param answer pi.Respond
function M.read(params, answer)
  M.flush()
  local buffer = buffer_of(params.uri)
  if not buffer then
    return answer({ open = false })
  end
  local lines = lines_of(buffer)
  local text = table.concat(lines, "\n")
  -- A NUL is kept as a newline within a line.
  local newlines = select(2, text:gsub("\n", ""))
  if newlines ~= math.max(0, #lines - 1) then
    return answer(nil, require("pi.rpc").refusal("the buffer holds NUL bytes"))
  elseif not require("pi.utf8_text").valid(text) then
    return answer(nil, require("pi.rpc").refusal("the buffer holds bytes that are no UTF-8"))
  end
  if #lines > 0 and ends_in_newline(buffer) then
    text = text .. "\n"
  end
  answer({
    open = true,
    text = text,
    version = vim.api.nvim_buf_get_changedtick(buffer),
    eol = ({ dos = "\r\n", mac = "\r" })[vim.bo[buffer].fileformat] or "\n",
  })
end

-- Changing ----------------------------------------------------------------------------------------

---@param buffer integer
---@param edit lsp.TextEdit
local function apply_one(buffer, edit)
  local first, last = edit.range.start, edit.range["end"]
  local text = edit.newText
  if vim.bo[buffer].fileformat == "dos" then
    text = text:gsub("\r\n", "\n")
  end
  local lines = vim.split(text, "\n", { plain = true })
  vim.api.nvim_buf_set_text(buffer, first.line, first.character, last.line, last.character, lines)
end

---Apply edits, the last one first. A text that ends in a newline has an empty last line, which a buffer has not: it is
---there while an edit reaches it.
---@param buffer integer
---@param edits lsp.TextEdit[] from the end on
local function apply_text(buffer, edits)
  local count = vim.api.nvim_buf_line_count(buffer)
  local newline = #lines_of(buffer) > 0 and ends_in_newline(buffer)
  local behind = newline and edits[1].range["end"].line >= count
  if behind then
    vim.api.nvim_buf_set_lines(buffer, -1, -1, false, { "" })
  end
  for _, edit in ipairs(edits) do
    apply_one(buffer, edit)
  end
  if newline and not behind then
    return
  end
  count = vim.api.nvim_buf_line_count(buffer)
  local ends = count > 1 and vim.api.nvim_buf_get_lines(buffer, -2, -1, false)[1] == ""
  if ends then
    vim.api.nvim_buf_set_lines(buffer, -2, -1, false, {})
  end
  if ends ~= ends_in_newline(buffer) then
    vim.bo[buffer].endofline = ends
    vim.bo[buffer].fixendofline = vim.bo[buffer].fixendofline and ends
  end
end

---Setting 'undolevels', to whatever value, ends the undo block that is open.
---@param buffer integer
local function end_undo_block(buffer)
  vim.bo[buffer].undolevels = vim.bo[buffer].undolevels
end

---Neovim 0.11 drops the marks of a line that an edit touches.
---@param buffer integer
---@param marks table[] as `getmarklist` gave them before
local function restore_marks(buffer, marks)
  local count = vim.api.nvim_buf_line_count(buffer)
  for _, mark in ipairs(marks) do
    local name = mark.mark:sub(2)
    if name:match("^%l$") and vim.api.nvim_buf_get_mark(buffer, name)[1] == 0 then
      vim.api.nvim_buf_set_mark(buffer, name, math.min(mark.pos[2], count), math.max(0, mark.pos[3] - 1), {})
    end
  end
end

---@param buffer integer
---@param edits lsp.TextEdit[]
local function apply_all(buffer, edits)
  local sorted = vim.list_extend({}, edits)
  -- From the end on, so that places of edits above stay right.
  table.sort(sorted, function(a, b)
    local x, y = a.range.start, b.range.start
    return x.line > y.line or (x.line == y.line and x.character > y.character)
  end)
  local marks = vim.fn.getmarklist(buffer)
  end_undo_block(buffer)
  apply_text(buffer, sorted)
  end_undo_block(buffer)
  restore_marks(buffer, marks)
end

---@param params pi_rpc.ApplyEditParams
---@param answer pi.Respond
function M.apply(params, answer)
  M.flush()
  local function refuse(reason)
    answer({ applied = false, failureReason = reason })
  end
  local changes = params.edit.documentChanges or {}
  ---@type { buffer: integer, edits: lsp.TextEdit[] }[]
  local work = {}
  for _, change in ipairs(changes) do
    local buffer = buffer_of(change.textDocument.uri)
    if not buffer then
      return refuse("the document is not open")
    elseif change.textDocument.version ~= vim.api.nvim_buf_get_changedtick(buffer) then
      return refuse("version")
    elseif not vim.bo[buffer].modifiable then
      return refuse("the buffer is not modifiable")
    end
    work[#work + 1] = { buffer = buffer, edits = change.edits }
  end
  for _, each in ipairs(work) do
    -- One that fails half way is undone by nobody: the daemon reads what came of it.
    local ok, err = pcall(apply_all, each.buffer, each.edits)
    if not ok then
      return refuse(tostring(err))
    end
  end
  M.flush()
  answer({ applied = true })
end

-- Saving ------------------------------------------------------------------------------------------

---@param params pi_rpc.SaveDocumentParams
---@param answer pi.Respond
function M.save(params, answer)
  local buffer = buffer_of(params.uri)
  if not buffer or vim.api.nvim_buf_get_changedtick(buffer) ~= params.version or vim.bo[buffer].readonly then
    return answer({ saved = false })
  end
  local ok, err = pcall(vim.api.nvim_buf_call, buffer, function()
    -- With `!`, for without it a person would be asked here about a file that is newer; the daemon has looked at it.
    vim.cmd("silent lockmarks write!")
  end)
  if not ok then
    vim.notify("pi: the buffer was not saved: " .. tostring(err), vim.log.levels.WARN)
  end
  M.flush()
  answer({ saved = ok and not vim.bo[buffer].modified })
end

---Read a buffer's file again, if it is newer.
---@param buffer integer
local function read_again(buffer)
  if blank(buffer) then
    -- Of a file that was just created, looking at the time would only warn.
    return vim.api.nvim_buf_call(buffer, function()
      vim.cmd("silent edit")
    end)
  end
  local autoread = vim.bo[buffer].autoread
  vim.bo[buffer].autoread = true
  local ok, err = pcall(vim.cmd.checktime, buffer)
  vim.bo[buffer].autoread = autoread
  if not ok then
    error(err, 0)
  end
end

---Files that a tool or a command changed: buffers that hold nothing of the person's own are read again, without a
---question. Below changes of the person's own nothing happens; the editor asks when they are written.
---@param changes pi_rpc.ChangedFile[]
function M.changed(changes)
  for _, change in ipairs(changes) do
    local buffer = buffer_of(change.uri)
    if buffer and not vim.bo[buffer].modified then
      -- The person's own autocommands run here, and may fail.
      local ok, err = pcall(read_again, buffer)
      if not ok then
        require("pi.complaints").brief("a changed file was not read again: " .. tostring(err))
      end
    end
  end
end

return M
