---Messages of each role as blocks: with a header where another begins to speak.
---
---Works on a `pi.View`.
local calls = require("pi.render_calls")
local parts = require("pi.render_parts")
local text = require("pi.render_text")
local tools = require("pi.render_tools")

local M = {}

---A header, where another speaker begins.
---@param view pi.View
---@param speaker "user"|"assistant"
---@param name string
function M.header(view, speaker, name)
  if view.speaker ~= speaker or speaker == "user" then
    view.speaker = speaker
    view.header = view.document:add({ kind = speaker, head = { "## " .. name } })
  end
  return view.header
end

---A word of the plugin or the daemon, not of the model.
---@param view pi.View
---@param level "info"|"warning"|"error"
---@param message string
function M.notice(view, level, message)
  local lines = vim.tbl_map(text.code, text.lines(vim.trim(message)))
  view.document:add({ kind = "notice", level = level, head = lines })
end

local function markdown(view, kind, body)
  local fence = text.open_fence(body)
  return view.document:add({ kind = kind, tail = fence and { fence } or nil }, body)
end

---Texts of attachments, which the daemon puts below what the person wrote.
local ATTACHED = { "\n\n<attached%-file ", "\n\n<selection ", "\n\n<diagnostics ", "\n\n<attached%-text[ >]" }

---@return string said
---@return string? attached
local function split(message)
  local whole = "\n\n" .. message
  local first = #whole + 1
  for _, pattern in ipairs(ATTACHED) do
    first = math.min(first, whole:find(pattern) or first)
  end
  local attached = vim.trim(whole:sub(first))
  return vim.trim(whole:sub(1, first - 1)), attached ~= "" and attached or nil
end

---@type table<string, fun(view: pi.View, message: table): pi.Block?>
local role = {}

function role.user(view, message)
  local block = M.header(view, "user", "You")
  block.timestamp = message.timestamp
  local said, attached = split(text.of_content(message.content))
  if said ~= "" then
    view.asked[#view.asked + 1] = said
    markdown(view, "said", said)
  end
  if attached then
    local fold = { kind = "attached", head = { "Attached", text.FENCE }, tail = { text.FENCE }, fold = true }
    view.document:fold(view.document:add(fold, text.guarded(attached)), true)
  end
  return block
end

function role.assistant(view, message)
  local block = M.header(view, "assistant", message.model)
  parts.reconcile(view, message)
  local usage = message.usage
  block.input = usage.input + usage.cacheRead + usage.cacheWrite
  block.output = (block.output or 0) + usage.output
  block.cost = (block.cost or 0) + usage.cost.total
  view.document:touch(block)
  if message.stopReason == "aborted" then
    M.notice(view, "info", "Stopped.")
    view.stopped = true
  elseif message.stopReason == "error" then
    M.notice(view, "error", message.errorMessage or "The request failed.")
  elseif message.stopReason == "length" then
    M.notice(view, "warning", "The reply was cut at the model's limit.")
  end
  return block
end

function role.toolResult(view, message)
  local block = calls.find(view, message.toolCallId, message.toolName)
  if not calls.ended(block) then
    calls.finish(view, block, message, message.isError, message.durationMs)
  end
  return block
end

function role.bashExecution(view, message)
  calls.finish_command(view, message)
end

local function summary(title)
  return function(view, message)
    view.speaker = nil
    local block = view.document:add(
      { kind = "summary", tokens = message.tokensBefore, head = { title }, tail = { "" }, fold = true },
      message.summary
    )
    view.document:fold(block, true)
    return block
  end
end

role.compactionSummary = summary("Summary of what came before")
role.branchSummary = summary("Summary of another branch")

function role.custom(view, message)
  if message.display then
    view.speaker = nil
    return markdown(view, "text", text.of_content(message.content))
  end
end

---A whole message.
---@param view pi.View
---@param message pi_rpc.Message
---@param entry_id? string
function M.add(view, message, entry_id)
  local add = role[message.role]
  local block = add and add(view, message)
  if block then
    block.entry_id = block.entry_id or entry_id
  end
end

---A session whole: its messages, then what goes on.
---@param view pi.View
---@param snapshot {messages: table[], entryIds: string[], hasMore: boolean, calls?: table[], live?: table}
function M.add_all(view, snapshot)
  for _, description in ipairs(snapshot.calls or {}) do
    view.described[description.toolCallId] = description
  end
  if snapshot.hasMore then
    view.document:add({ kind = "earlier", head = { "Earlier messages are not shown." } })
  end
  for i, message in ipairs(snapshot.messages) do
    view.parts = {}
    M.add(view, message, snapshot.entryIds[i])
  end
  view.parts = {}
  local live = snapshot.live or {}
  if live.message then
    M.header(view, "assistant", live.message.model)
    parts.reconcile(view, live.message, true)
    -- What comes next goes on with these parts; the message's id is not known before.
    view.streaming = "live"
  end
  for _, tool in ipairs(live.tools or {}) do
    local title = tool.title or tools.title(tool.toolName, tool.args)
    calls.start(view, vim.tbl_extend("force", tool, { title = title }))
    calls.grow(view, view.calls[tool.toolCallId], tool.output)
  end
end

return M
