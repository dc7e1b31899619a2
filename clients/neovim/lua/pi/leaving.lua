---The end of Neovim: asks while a run goes on, and leaves no daemon behind.
local M = {}

---@return pi.Session[]
local function running()
  return vim.tbl_filter(function(session)
    return session:running()
  end, require("pi.sessions").all())
end

---@param from integer
---@param to integer
local function dress_like(from, to)
  ---@type table<string, any>
  local variables = vim.fn.getwinvar(from, "")
  for name, value in pairs(variables) do
    vim.w[to][name] = value
  end
  for name, info in pairs(vim.api.nvim_get_all_options_info()) do
    if info.scope == "win" then
      local value = vim.api.nvim_get_option_value(name, { win = from })
      -- A window bar that is inherited takes no row until it is set.
      if name == "winbar" or vim.api.nvim_get_option_value(name, { win = to }) ~= value then
        vim.api.nvim_set_option_value(name, value, { win = to, scope = "local" })
      end
    end
  end
end

---@param window integer
---@return integer another one in its place, that looks the same
local function twin(window)
  local config = vim.api.nvim_win_get_config(window)
  local view = vim.fn.winsaveview()
  if config.relative ~= "" then
    vim.api.nvim_open_win(vim.api.nvim_win_get_buf(window), true, config)
  elseif not pcall(vim.cmd.split) then
    -- There is no room for two above each other; beside each other there is.
    vim.cmd("vertical split")
  end
  local other = vim.api.nvim_get_current_win()
  dress_like(window, other)
  vim.fn.winrestview(view)
  return other
end

---There is no way to refuse to quit but this: Neovim stays when the window that it was told from is gone afterwards.
---Another window takes its place. Nobody hears of it, for nothing has happened.
local function stay()
  local window = vim.api.nvim_get_current_win()
  local sizes = {}
  for _, each in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.api.nvim_win_get_config(each).relative == "" then
      sizes[each] = { vim.api.nvim_win_get_width(each), vim.api.nvim_win_get_height(each) }
    end
  end
  local ignored = vim.o.eventignore
  vim.o.eventignore = "all"
  local ok, err = pcall(function()
    local other = twin(window)
    vim.api.nvim_win_close(window, true)
    sizes[other], sizes[window] = sizes[window], nil
    -- The size of one moves its neighbours: they are right the second time.
    for _ = 1, 2 do
      for each, size in pairs(sizes) do
        vim.api.nvim_win_set_width(each, size[1])
        vim.api.nvim_win_set_height(each, size[2])
      end
    end
  end)
  vim.o.eventignore = ignored
  if not ok then
    vim.notify("pi: " .. tostring(err), vim.log.levels.ERROR)
  end
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
