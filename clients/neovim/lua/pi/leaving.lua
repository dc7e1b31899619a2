---The end of Neovim: asks while a run goes on, and leaves no daemon behind.
local M = {}

---@return pi.Session[]
local function running()
  return vim.tbl_filter(function(session)
    return session:running()
  end, require("pi.sessions").all())
end

---There is no way to refuse to quit but this: Neovim stays when the window that it was told from is gone afterwards.
---Another window takes its place, with the same buffer, view and size.
local function stay()
  local window = vim.api.nvim_get_current_win()
  local view = vim.fn.winsaveview()
  vim.cmd("noautocmd split")
  vim.fn.winrestview(view)
  vim.api.nvim_win_close(window, true)
end

local function ask()
  local busy = #running()
  if busy == 0 or not require("pi.config").get().quit.ask or #vim.api.nvim_list_uis() == 0 then
    return
  end
  local what = busy == 1 and "The agent is at work." or ("The agent is at work in %d sessions."):format(busy)
  if vim.fn.confirm("pi: " .. what .. " Quit and stop it?", "&Stay\n&Quit", 1, "Question") ~= 2 then
    stay()
    vim.cmd.redraw({ bang = true })
  end
end

---Called when a daemon is started.
function M.watch()
  local group = vim.api.nvim_create_augroup("pi.leaving", { clear = true })
  vim.api.nvim_create_autocmd("ExitPre", { group = group, callback = ask })
  vim.api.nvim_create_autocmd("VimLeavePre", {
    group = group,
    callback = function()
      require("pi.daemon").stop()
    end,
  })
end

return M
