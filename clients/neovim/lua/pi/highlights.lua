---The highlight groups, all of which are links that a colour scheme or a person can set.
local M = {}

M.LINKS = {
  PiUser = "Title",
  PiAssistant = "Title",
  PiThinking = "Comment",
  PiTool = "Function",
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

---Define them now, and after each change of the colour scheme.
function M.setup()
  M.define()
  vim.api.nvim_create_autocmd("ColorScheme", {
    group = vim.api.nvim_create_augroup("pi.highlights", {}),
    callback = M.define,
  })
end

return M
