---Tool calls and commands of the person: a title, and an output that grows while they run.
---
---Works on a `pi.View`. A block's `state` is `writing` (the model writes its arguments), `running`, `done` or
---`failed`.
local text = require("pi.render_text")
local tools = require("pi.render_tools")

local M = {}

local function title(block)
  return text.code(block.title or block.name)
end

---Draw the whole output. A fence around it keeps Markdown's hands off it.
local function show(view, block, output, language)
  output = output:gsub("%s+$", "")
  if output == "" then
    view.document:rewrite(block, { head = { title(block) }, tail = {} })
  else
    local fence = text.FENCE .. (language ~= "" and " " .. language or "")
    view.document:rewrite(block, { head = { title(block), fence }, tail = { text.FENCE } }, text.guarded(output))
  end
  block.diff = language == "diff" and output or nil
end

---The block of a call; begun if it is a new one.
---@param view pi.View
---@param id string
---@param name string
---@return pi.Block
function M.find(view, id, name)
  local block = view.calls[id]
  if not block then
    block =
      view.document:add({ kind = "tool", name = name, state = "writing", head = { text.code(name) }, fold = true })
    view.calls[id] = block
  end
  return block
end

---Its arguments are known.
---@param view pi.View
---@param id string
---@param block pi.Block
---@param args table
function M.know(view, id, block, args)
  if block.state == "writing" then
    local description = view.described[id] or {}
    block.args, block.locations = args, description.locations
    block.title = description.title or tools.title(block.name, args)
    view.document:retitle(block, title(block))
  end
end

---It runs.
---@param view pi.View
---@param event {toolCallId: string, toolName: string, args: table, title: string, locations?: table[]}
function M.start(view, event)
  local block = M.find(view, event.toolCallId, event.toolName)
  block.state, block.args, block.locations = "running", event.args, event.locations
  if event.title ~= block.title then
    block.title = event.title
    view.document:retitle(block, title(block))
  end
  view.document:touch(block)
end

---More output.
---@param view pi.View
---@param block pi.Block
---@param added string
function M.grow(view, block, added)
  if added == "" then
    return
  end
  if not block.pieces then
    block.pieces = {}
    view.document:rewrite(block, { head = { title(block), text.FENCE }, tail = { text.FENCE } }, "")
  end
  block.pieces[#block.pieces + 1] = added
  view.document:append(block, text.guarded(added))
end

---Output of a tool that says it anew each time.
---@param view pi.View
---@param block pi.Block
function M.replace(view, block, output)
  block.pieces = nil
  show(view, block, output, "")
end

---@param view pi.View
---@param block pi.Block
local function finish(view, block, output, language)
  output = text.settled(output)
  local streamed = block.pieces and table.concat(block.pieces)
  -- What is drawn stays where it is the same.
  local same = streamed
    and language == ""
    and output:sub(1, #streamed) == streamed
    and not output:find(text.FENCE, 1, true)
  if same then
    view.document:append(block, output:sub(#streamed + 1))
  else
    show(view, block, output, language)
  end
  block.pieces = nil
  local lines = view.document:body_height(block)
  if lines > 0 then
    view.document:fold(block, lines > view.options.open_lines)
  end
  view.document:touch(block)
end

---It has ended: its result takes the place of what was drawn.
---@param view pi.View
---@param block pi.Block
---@param result table
---@param is_error boolean
---@param duration? number milliseconds
function M.finish(view, block, result, is_error, duration)
  block.state, block.duration = is_error and "failed" or "done", duration
  block.exit_code = vim.tbl_get(result, "structuredContent", "exit_code")
  finish(view, block, tools.output(block.name, block.args, result, is_error))
end

---@param block pi.Block
---@return boolean
function M.ended(block)
  return block.state == "done" or block.state == "failed"
end

---Nobody will tell how it ends.
---@param view pi.View
---@param block? pi.Block
function M.give_up(view, block)
  if block and not M.ended(block) then
    block.state = "failed"
    view.document:touch(block)
  end
end

-- Commands of the person -------------------------------------------------------------------------------------------

---@param view pi.View
---@param token string
---@param command? string as far as it is known
---@return pi.Block
function M.command(view, token, command)
  local block = view.commands[token]
  if not block then
    view.speaker = nil
    local heading = command and "$ " .. command or "$ …"
    block = view.document:add({
      kind = "tool",
      name = "bash",
      title = heading,
      command = command,
      state = "running",
      head = { text.code(heading) },
      fold = true,
    })
    view.commands[token] = block
  end
  return block
end

---A command has ended; which of those that run it was, its text tells.
---@param view pi.View
---@param message pi_rpc.BashExecutionMessage
function M.finish_command(view, message)
  local token
  for each, block in vim.spairs(view.commands) do
    if block.command == message.command or (not token and not block.command) then
      token = each
    end
  end
  local block = M.command(view, token or "", message.command)
  view.commands[token or ""] = nil
  block.title, block.exit_code = "$ " .. message.command, message.exitCode
  block.private = message.excludeFromContext
  block.state = (message.cancelled or (message.exitCode or 0) ~= 0) and "failed" or "done"
  if block.command ~= message.command then
    block.pieces = nil
  end
  finish(view, block, message.output, "")
end

return M
