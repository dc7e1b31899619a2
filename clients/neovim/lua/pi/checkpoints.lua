---What runs changed: looked at as a diff, and taken back.
local M = {}

local plain = require("pi.plain")

---@param each pi_rpc.CheckpointSummary
---@return string
local function line(each)
  local files = #each.files + #(each.notRestorable or {})
  return ("%s  %s  (%d file%s)"):format(
    plain.time(each.time),
    each.kind == "restore" and "restored: " .. plain.line(each.text or "", 50) or plain.line(each.text or "", 60),
    files,
    files == 1 and "" or "s"
  )
end

---Show a unified diff in a window of its own.
---@param title string
---@param text string
function M.show_diff(title, text)
  vim.cmd("botright new")
  local lines = vim.split((text:gsub("\n$", "")), "\n", { plain = true })
  vim.api.nvim_buf_set_lines(0, 0, -1, false, lines)
  vim.bo.buftype, vim.bo.bufhidden, vim.bo.swapfile = "nofile", "wipe", false
  vim.bo.modified, vim.bo.modifiable, vim.bo.filetype = false, false, "diff"
  vim.wo[0].winbar = (title:gsub("%%", "%%%%"))
end

---@param session pi.Session
---@param checkpoint pi_rpc.CheckpointSummary
function M.diff(session, checkpoint)
  session:request("checkpoint/diff", { checkpointId = checkpoint.checkpointId }, function(err, result)
    if err then
      return session:complain(err)
    end
    local cut = result.truncated and " (cut)" or ""
    M.show_diff(line(checkpoint) .. cut, result.diff ~= "" and result.diff or "(no difference)")
  end)
end

---@param session pi.Session
---@param checkpoint pi_rpc.CheckpointSummary
---@param paths? string[]
function M.restore(session, checkpoint, paths)
  require("pi.documents").flush()
  session:request("checkpoint/restore", { checkpointId = checkpoint.checkpointId, paths = paths }, function(err, result)
    if err then
      return session:complain(err)
    end
    local told = { ("pi: %d restored"):format(#result.restored) }
    for _, conflict in ipairs(result.conflicts) do
      told[#told + 1] = ("  left as it is: %s (%s)"):format(vim.fn.fnamemodify(conflict.path, ":."), conflict.message)
    end
    local level = #result.conflicts > 0 and vim.log.levels.WARN or vim.log.levels.INFO
    vim.notify(table.concat(told, "\n"), level)
  end)
end

---@param session pi.Session
---@param checkpoint pi_rpc.CheckpointSummary
local function act(session, checkpoint)
  local actions = {
    {
      text = "Show what it changed",
      run = function()
        M.diff(session, checkpoint)
      end,
    },
    {
      text = "Put all its files back as they were before",
      run = function()
        M.restore(session, checkpoint)
      end,
    },
  }
  if #checkpoint.files > 1 then
    for _, file in ipairs(checkpoint.files) do
      actions[#actions + 1] = {
        text = "Put back " .. vim.fn.fnamemodify(file.path, ":."),
        run = function()
          M.restore(session, checkpoint, { file.path })
        end,
      }
    end
  end
  vim.ui.select(actions, {
    prompt = line(checkpoint),
    kind = "pi.checkpoint_action",
    format_item = function(action)
      return action.text
    end,
  }, function(action)
    if action then
      action.run()
    end
  end)
end

---@param session pi.Session
function M.choose(session)
  session:request("checkpoint/list", nil, function(err, result)
    if err then
      return session:complain(err)
    elseif #result.checkpoints == 0 then
      return vim.notify("pi: no run of this session has changed a file")
    end
    vim.ui.select(result.checkpoints, {
      prompt = "What runs changed",
      kind = "pi.checkpoint",
      format_item = line,
    }, function(checkpoint)
      if checkpoint then
        act(session, checkpoint)
      end
    end)
  end)
end

return M
