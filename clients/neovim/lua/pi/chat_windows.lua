---The two windows of a chat, one that shows it and one to write in below it, in each layout.
---
---Owns where they are and how large; in a tab there is one pair at most. Does not own their buffers.
local folds = require("pi.folds")

local M = {}

local MIN_WIDTH, MIN_HEIGHT, PROMPT_HEIGHT = 24, 6, 3

---A share of the whole below 1, else cells.
---@param value number
---@param whole integer
---@param least integer
---@return integer
function M.size(value, whole, least)
  local cells = value < 1 and math.floor(whole * value) or math.floor(value)
  return math.max(math.min(cells, whole), math.min(least, whole))
end

---The window of a role in the current tab.
---@param role "chat"|"prompt"
---@return integer?
function M.find(role)
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.w[window].pi_role == role then
      return window
    end
  end
end

local CHAT_OPTIONS = vim.tbl_extend("error", folds.OPTIONS, {
  winbar = "%{%v:lua.require'pi.chat'.winbar()%}",
  conceallevel = 2,
  concealcursor = "nvc",
  breakindent = true,
})
local PROMPT_OPTIONS = { winbar = "%{%v:lua.require'pi.prompt'.winbar()%}", winfixheight = true }
local BOTH = {
  number = false,
  relativenumber = false,
  signcolumn = "no",
  foldcolumn = "0",
  cursorline = false,
  list = false,
  spell = false,
  wrap = true,
  linebreak = true,
}

local function dress(window, role)
  vim.w[window].pi_role = role
  local own = role == "chat" and CHAT_OPTIONS or PROMPT_OPTIONS
  for name, value in pairs(vim.tbl_extend("error", own, BOTH)) do
    vim.api.nvim_set_option_value(name, value, { win = window, scope = "local" })
  end
end

---A window is one for anything again.
---@param window integer
function M.undress(window)
  vim.w[window].pi_role = nil
  vim.api.nvim_win_call(window, function()
    for _, options in ipairs({ CHAT_OPTIONS, PROMPT_OPTIONS, BOTH }) do
      for name in pairs(options) do
        vim.cmd("setlocal " .. name .. "<")
      end
    end
  end)
end

---The lines above the windows are to be drawn anew, with the next refresh of the screen.
---@param buffer integer
function M.redraw_winbar(buffer)
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    local value = vim.wo[window].winbar
    vim.api.nvim_set_option_value("winbar", value, { win = window, scope = "local" })
  end
end

---Where the floats stand: the prompt below the chat, borders around both.
---@param prompt_rows integer
---@return vim.api.keyset.win_config chat
---@return vim.api.keyset.win_config prompt
function M.float(prompt_rows)
  local options = require("pi.config").get().chat
  local columns, lines = vim.o.columns, vim.o.lines - vim.o.cmdheight
  local width = M.size(options.width, columns - 2, math.min(72, columns - 2))
  local height = M.size(options.height, lines - 4, MIN_HEIGHT)
  prompt_rows = math.min(prompt_rows, math.max(1, height - 3))
  local chat_rows = math.max(1, math.min(height, lines - 4 - prompt_rows))
  local left = math.max(0, math.floor((columns - width - 2) / 2))
  local top = math.max(0, math.floor((lines - chat_rows - prompt_rows - 4) / 2))
  local border = vim.o.winborder ~= "" and vim.o.winborder or "rounded"
  local shared = { relative = "editor", width = width, col = left, border = border, zindex = 40 }
  return vim.tbl_extend("error", shared, { row = top, height = chat_rows }),
    vim.tbl_extend("error", shared, { row = top + chat_rows + 2, height = prompt_rows })
end

---@type table<string, fun(buffer: integer): integer>
local open = {}

local function beside(side)
  return function(buffer)
    local width = M.size(require("pi.config").get().chat.width, vim.o.columns, MIN_WIDTH)
    return vim.api.nvim_open_win(buffer, true, { split = side, win = -1, width = width })
  end
end

open.right, open.left = beside("right"), beside("left")

function open.below(buffer)
  local height = M.size(require("pi.config").get().chat.height, vim.o.lines, MIN_HEIGHT + PROMPT_HEIGHT)
  return vim.api.nvim_open_win(buffer, true, { split = "below", win = -1, height = height })
end

function open.tab(buffer)
  vim.cmd("tab split")
  vim.api.nvim_win_set_buf(0, buffer)
  return vim.api.nvim_get_current_win()
end

function open.float(buffer)
  return vim.api.nvim_open_win(buffer, true, (M.float(PROMPT_HEIGHT)))
end

local function is_float(window)
  return vim.api.nvim_win_get_config(window).relative ~= ""
end

local function open_prompt(chat, buffer)
  if is_float(chat) then
    local _, config = M.float(PROMPT_HEIGHT)
    return vim.api.nvim_open_win(buffer, false, config)
  end
  return vim.api.nvim_open_win(buffer, false, { split = "below", win = chat, height = PROMPT_HEIGHT })
end

---Show a chat in the current tab: in the windows that are there, else in new ones.
---@param layout string
---@param chat_buffer integer
---@param prompt_buffer integer
---@return integer prompt the window to write in
function M.show(layout, chat_buffer, prompt_buffer)
  local chat = M.find("chat")
  if not chat then
    -- A prompt whose chat is gone is in the way.
    M.close()
  end
  if chat then
    vim.api.nvim_win_set_buf(chat, chat_buffer)
  else
    chat = open[layout](chat_buffer)
    dress(chat, "chat")
    folds.refresh(chat)
  end
  local prompt = M.find("prompt")
  if prompt then
    vim.api.nvim_win_set_buf(prompt, prompt_buffer)
  else
    prompt = open_prompt(chat, prompt_buffer)
    dress(prompt, "prompt")
  end
  local last = vim.api.nvim_buf_line_count(chat_buffer)
  vim.api.nvim_win_set_cursor(chat, { last, 0 })
  M.fit(prompt)
  return prompt
end

---Close the chat of the current tab. What is the only window of all stays, empty.
function M.close()
  for _, role in ipairs({ "prompt", "chat" }) do
    local window = M.find(role)
    if window then
      if not pcall(vim.api.nvim_win_close, window, false) then
        M.undress(window)
        vim.api.nvim_win_call(window, vim.cmd.enew)
      end
    end
  end
end

---A prompt's window is as high as what is in it, within bounds.
---@param window integer
function M.fit(window)
  local most = require("pi.config").get().prompt.height
  -- And one for what is attached.
  local needed = vim.api.nvim_win_text_height(window, {}).all + 1
  local rows = math.max(PROMPT_HEIGHT, math.min(most, needed))
  if not is_float(window) then
    if vim.api.nvim_win_get_height(window) ~= rows then
      vim.api.nvim_win_set_height(window, rows)
    end
  else
    local chat = M.find("chat")
    local above, below = M.float(rows)
    vim.api.nvim_win_set_config(window, below)
    if chat and is_float(chat) then
      vim.api.nvim_win_set_config(chat, above)
    end
  end
  if needed <= vim.api.nvim_win_get_height(window) then
    -- What was scrolled away while it was smaller is in sight again.
    vim.api.nvim_win_call(window, function()
      vim.fn.winrestview({ topline = 1 })
    end)
  end
end

---Keep to the screen's size, and close the prompt with its chat.
---@param group integer
function M.setup(group)
  vim.api.nvim_create_autocmd("VimResized", {
    group = group,
    callback = function()
      local prompt = M.find("prompt")
      if prompt then
        M.fit(prompt)
      end
    end,
  })
  vim.api.nvim_create_autocmd("WinClosed", {
    group = group,
    callback = function(event)
      local window = assert(tonumber(event.match))
      if not vim.api.nvim_win_is_valid(window) or vim.w[window].pi_role ~= "chat" then
        return
      end
      -- Which prompt it is counts now: the chat may be shown anew before it can be closed.
      local prompts = vim.tbl_filter(function(other)
        return vim.w[other].pi_role == "prompt"
      end, vim.api.nvim_tabpage_list_wins(vim.api.nvim_win_get_tabpage(window)))
      vim.schedule(function()
        for _, prompt in ipairs(prompts) do
          if vim.api.nvim_win_is_valid(prompt) then
            -- The only window of all cannot be closed.
            pcall(vim.api.nvim_win_close, prompt, false)
          end
        end
      end)
    end,
  })
end

return M
