---The highlight groups, all of which are links that a colour scheme or a person can set.
local M = {}

M.LINKS = {
  PiUser = "Title",
  PiAssistant = "Title",
  PiThinking = "Comment",
  PiTool = "Function",
  PiOutput = "@variable",
  PiRunning = "DiagnosticInfo",
  PiDone = "DiagnosticOk",
  PiFailed = "DiagnosticError",
  PiDetail = "Comment",
  PiAdded = "Added",
  PiRemoved = "Removed",
  PiInfo = "DiagnosticInfo",
  PiWarning = "DiagnosticWarn",
  PiError = "DiagnosticError",
  PiAttachment = "Special",
  PiQueued = "Special",
  PiPlaceholder = "NonText",
}

---Define the groups that nobody else has. A colour scheme clears them: then it is done again.
function M.define()
  for group, target in pairs(M.LINKS) do
    vim.api.nvim_set_hl(0, group, { link = target, default = true })
  end
end

---Colour a buffer as Markdown, by the grammar that Neovim brings; without one it is plain.
---
---As `vim.treesitter.start`, but for whole lines that its query conceals: Neovim asks for those line by line on each
---change, which makes following a stream quadratic. Lines of fences of our own are concealed by marks.
---@param buffer integer
function M.markdown(buffer)
  local parsed, parser = pcall(vim.treesitter.get_parser, buffer, "markdown", { error = false })
  if not parsed or not parser then
    return
  end
  local query = {}
  for _, file in ipairs(vim.treesitter.query.get_files("markdown", "highlights")) do
    query[#query + 1] = table.concat(vim.fn.readfile(file), "\n")
  end
  local plain = table.concat(query, "\n"):gsub("%(#set! conceal_lines [^)]*%)", "")
  vim.treesitter.highlighter.new(parser, { queries = { markdown = plain } })
end

---Know a text anew that has taken the place of another: what is known of the other names rows that are not there.
---@param buffer integer
function M.parse(buffer)
  local active = vim.treesitter.highlighter.active[buffer]
  if active then
    active.tree:parse()
  end
end

---Define them now, and after each change of the colour scheme.
function M.setup()
  M.define()
  vim.api.nvim_create_autocmd("ColorScheme", {
    group = vim.api.nvim_create_augroup("pi.highlights", {}),
    callback = M.define,
  })
end

return M
