---What a person attaches to a message: a selection, diagnostics, files.
---
---Owns how they are made of buffers and what they are called. Nothing is attached by itself. Positions are bytes, as
---is agreed with the daemon.
local M = {}

---@param buffer integer
---@return string? uri nil where the buffer is no file
local function uri_of(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  if name == "" or vim.bo[buffer].buftype ~= "" then
    return nil
  end
  return vim.uri_from_fname(vim.fs.normalize(vim.fn.fnamemodify(name, ":p")))
end

---The text between two positions (rows from 0, columns in bytes, the end not included).
---@param buffer integer
---@param first [integer, integer]
---@param last [integer, integer]
---@return table attachment
function M.selection(buffer, first, last)
  local lines = vim.api.nvim_buf_get_text(buffer, first[1], first[2], last[1], last[2], {})
  local text, uri = table.concat(lines, "\n"), uri_of(buffer)
  if not uri then
    local name = vim.api.nvim_buf_get_name(buffer)
    return { type = "text", name = name ~= "" and vim.fs.basename(name) or "selection", text = text }
  end
  local range = {
    start = { line = first[1], character = first[2] },
    ["end"] = { line = last[1], character = last[2] },
  }
  return { type = "selection", uri = uri, range = range, text = text }
end

---Whole lines, as a range of a command has them (from 1, the end included).
---@param buffer integer
---@param first integer
---@param last integer
---@return table attachment
function M.lines(buffer, first, last)
  local text = vim.api.nvim_buf_get_lines(buffer, last - 1, last, true)[1]
  return M.selection(buffer, { first - 1, 0 }, { last - 1, #text })
end

---What is selected in Visual mode, or was last.
---@return table? attachment nil where nothing was ever selected in this buffer
function M.visual()
  local buffer = vim.api.nvim_get_current_buf()
  local mode = vim.fn.mode()
  local now = mode == "v" or mode == "V" or mode == "\22"
  local from = vim.fn.getpos(now and "v" or "'<")
  local to = vim.fn.getpos(now and "." or "'>")
  if from[2] == 0 then
    return nil
  end
  if from[2] > to[2] or (from[2] == to[2] and from[3] > to[3]) then
    from, to = to, from
  end
  if (now and mode or vim.fn.visualmode()) ~= "v" then
    return M.lines(buffer, from[2], to[2])
  end
  local line = vim.api.nvim_buf_get_lines(buffer, to[2] - 1, to[2], true)[1]
  -- The last letter is selected, too, with all its bytes.
  local stop = math.min(to[3], #line)
  local finish = stop + (stop > 0 and vim.str_utf_end(line, stop) or 0)
  return M.selection(buffer, { from[2] - 1, from[3] - 1 }, { to[2] - 1, finish })
end

---@param diagnostic vim.Diagnostic
local function as_lsp(diagnostic)
  return {
    range = {
      start = { line = diagnostic.lnum, character = diagnostic.col },
      ["end"] = {
        line = diagnostic.end_lnum or diagnostic.lnum,
        character = diagnostic.end_col or diagnostic.col,
      },
    },
    message = diagnostic.message,
    severity = diagnostic.severity,
    source = diagnostic.source,
    code = diagnostic.code,
  }
end

---The diagnostics of a buffer, those in a range of lines (from 1) if one is given.
---@param buffer integer
---@param first? integer
---@param last? integer
---@return table? attachment nil where there are none
function M.diagnostics(buffer, first, last)
  local uri, found = uri_of(buffer), {}
  for _, diagnostic in ipairs(vim.diagnostic.get(buffer)) do
    if not first or (diagnostic.lnum >= first - 1 and diagnostic.lnum <= last - 1) then
      found[#found + 1] = as_lsp(diagnostic)
    end
  end
  return uri and #found > 0 and { type = "diagnostics", uri = uri, diagnostics = found } or nil
end

---@param path string
---@return table attachment
function M.file(path)
  return { type = "file", uri = vim.uri_from_fname(vim.fs.normalize(vim.fn.fnamemodify(path, ":p"))) }
end

---A path as it stands behind an `@`, and back: a space in it would end it.
---@param path string
---@return string
function M.escaped(path)
  return (path:gsub(" ", "\\ "))
end

---@param word string
---@return string
function M.unescaped(word)
  return (word:gsub("\\ ", " "))
end

---The files that a text mentions as `@path`, `@path:12` or `@path:12-20`.
---@param text string
---@param cwd string
---@return table[] attachments
function M.mentioned(text, cwd)
  local found, seen = {}, {}
  for before, word in ("\n" .. text:gsub("\\ ", "\1")):gmatch("([%s(])@([^%s]+)") do
    local path = word:gsub("\1", " "):gsub("[%.,;:!?)]+$", "")
    local name, first, last = path:match("^(.-):(%d+)%-?(%d*)$")
    local full = vim.fs.normalize(name or path)
    if not vim.startswith(full, "/") then
      full = vim.fs.joinpath(cwd, full)
    end
    if before and not seen[path] and vim.uv.fs_stat(full) then
      seen[path] = true
      local attachment = M.file(full)
      if first then
        attachment.range = {
          start = { line = math.max(0, tonumber(first) - 1), character = 0 },
          ["end"] = { line = tonumber(last ~= "" and last or first), character = 0 },
        }
      end
      found[#found + 1] = attachment
    end
  end
  return found
end

---What an attachment is called.
---@param attachment table
---@return string
function M.label(attachment)
  if attachment.type == "text" then
    return attachment.name or "text"
  end
  local name = vim.fn.fnamemodify(vim.uri_to_fname(attachment.uri), ":~:.")
  if attachment.type == "diagnostics" then
    local count = #attachment.diagnostics
    return ("%d diagnostic%s of %s"):format(count, count == 1 and "" or "s", name)
  elseif attachment.range then
    local start, finish = attachment.range.start, attachment.range["end"]
    local first, last = start.line + 1, finish.line + 1
    if finish.character == 0 and finish.line > start.line then
      -- It ends where a line begins, of which nothing is in it.
      last = last - 1
    end
    return first == last and ("%s:%d"):format(name, first) or ("%s:%d-%d"):format(name, first, last)
  end
  return name
end

return M
