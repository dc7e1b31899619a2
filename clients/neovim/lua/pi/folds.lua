---Folds of blocks in the windows that show a chat, and what a closed one says.
---
---They are manual folds: a person's own opening and closing stays as it is while text is added.
local marks = require("pi.render_marks")

local M = {}

---The option values of a window that shows a chat.
M.OPTIONS = {
  foldmethod = "manual",
  foldenable = true,
  foldminlines = 0,
  foldtext = "v:lua.require'pi.folds'.text()",
  fillchars = "fold: ,eob: ",
}

---Make the fold of a block anew, in the current window.
---@param first integer its first line, from 1
---@param last integer
---@param closed boolean
---@param follows boolean the cursor is where it is only because it follows the end
local function make(first, last, closed, follows)
  local here = vim.fn.line(".")
  if vim.fn.foldlevel(first) > 0 then
    vim.api.nvim_win_set_cursor(0, { first, 0 })
    vim.cmd("normal! zD")
  end
  if last > first then
    vim.cmd(("%d,%dfold"):format(first, last))
    -- What the cursor is in is not closed over it.
    if not closed or (not follows and here >= first and here <= last) then
      vim.cmd(("%d,%dfoldopen"):format(first, last))
    end
  end
end

---@param window integer
---@param document pi.Document
---@param blocks table<pi.Block, true>
---@param follows boolean the window follows the end
function M.apply(window, document, blocks, follows)
  vim.api.nvim_win_call(window, function()
    local view = vim.fn.winsaveview()
    for block in pairs(blocks) do
      if not block.gone then
        local row = document:row(block)
        make(row + 1, row + document.height(block), block.folded, follows)
      end
    end
    vim.fn.winrestview(view)
  end)
end

---Make all folds in a window that begins to show the chat.
---@param window integer
---@param document pi.Document
function M.apply_all(window, document)
  vim.api.nvim_win_call(window, function()
    local view = vim.fn.winsaveview()
    vim.cmd("normal! zE")
    local row = 0
    for _, block in ipairs(document.blocks) do
      local height = document.height(block)
      row = row + block.lead
      if block.folded ~= nil and height > 1 then
        vim.cmd(("%d,%dfold"):format(row + 1, row + height))
        if not block.folded then
          vim.cmd(("%d,%dfoldopen"):format(row + 1, row + height))
        end
      end
      row = row + height
    end
    vim.fn.winrestview(view)
  end)
end

---As `apply_all`, for a window whose buffer may show a chat.
---@param window integer
function M.refresh(window)
  local chat = require("pi.chat_buffer").of(vim.api.nvim_win_get_buf(window))
  if chat then
    M.apply_all(window, chat.view.document)
  end
end

---The line of a closed fold: the title and how much it hides.
---@return [string, string][]|string
function M.text()
  local chat = require("pi.chat_buffer").of(vim.api.nvim_get_current_buf())
  local block = chat and chat.view.document:at(vim.v.foldstart - 1)
  if not block then
    return vim.fn.foldtext()
  end
  local title = block.title or block.head[1]
  local detail, rows = marks.detail(block), block.body_rows
  local chunks = { { (title:gsub("%s+", " ")), marks.title_group(block) or "Folded" } }
  local icon = marks.icon(block)
  if icon then
    table.insert(chunks, 1, icon)
  end
  chunks[#chunks + 1] =
    { ("  %d line%s%s"):format(rows, rows == 1 and "" or "s", detail ~= "" and " · " .. detail or ""), "PiDetail" }
  return chunks
end

return M
