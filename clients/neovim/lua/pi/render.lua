---What a session's chat shows, as a fold: events in, changes of lines out.
---
---Owns which event changes what. Pure: `apply` events, `take` the changes. Does not own lines and rows
---(`pi.render_document`), how they look (`pi.render_marks`), nor any buffer (`pi.chat_buffer`). Events and fields
---that are not known are ignored.
local Document = require("pi.render_document")
local calls = require("pi.render_calls")
local messages = require("pi.render_messages")
local parts = require("pi.render_parts")
local text = require("pi.render_text")

---@class pi.View
---@field document pi.Document
---@field options {open_lines: integer, thinking: "folded"|"open"|"hidden"}
---@field calls table<string, pi.Block> tool calls, by their ids
---@field described table<string, pi_rpc.CallDescription> how calls of earlier are shown, by their ids
---@field commands table<string, pi.Block> commands of the person that run, by their tokens
---@field parts table<integer, pi.Block> parts of the message that is streamed
---@field streaming? string the message that is streamed
---@field speaker? "user"|"assistant" whose header stands last
---@field header? pi.Block that header
---@field stopped? boolean the reply itself says that it was stopped
---@field asked string[] what the person has said, oldest first
---@field status {phase?: string, retry?: pi_rpc.AutoRetryStart} what goes on
local View = {}
View.__index = View

---@param options? {open_lines?: integer, thinking?: string}
---@return pi.View
function View.new(options)
  local self = setmetatable({ document = Document.new() }, View)
  self.options = vim.tbl_extend("keep", options or {}, { open_lines = 10, thinking = "folded" })
  self:_forget()
  return self
end

---@private
function View:_forget()
  self.calls, self.described, self.commands, self.parts, self.asked = {}, {}, {}, {}, {}
  self.streaming, self.speaker, self.header, self.shown, self.told = nil, nil, nil, nil, nil
  self.status = {}
end

---@type table<string, fun(view: pi.View, event: table)>
local on = {}

function on.agent_start(view)
  view.status.phase = "turn"
end

function on.agent_settled(view, event)
  view.status = {}
  local message = event.errorMessage
  -- What the last message has said is not said again.
  if event.stopReason == "limit" then
    messages.notice(view, "warning", message or "A limit was reached.")
  elseif message and message ~= view.told and not event.aborted then
    messages.notice(view, "error", message)
  end
  if event.aborted and not view.stopped then
    messages.notice(view, "info", "Stopped.")
  end
  view.told, view.stopped = nil, nil
end

function on.message_start(view, event)
  local message = event.message
  if message.role == "assistant" then
    messages.header(view, "assistant", message.model)
    view.streaming, view.parts = event.messageId, {}
  elseif message.role == "user" then
    messages.add(view, message)
    view.shown = event.messageId
  end
end

---The message that is streamed is this one from now on.
local function stream(view, id)
  if view.streaming ~= id then
    if view.streaming ~= "live" then
      view.parts = {}
    end
    view.streaming = id
  end
end

function on.message_update(view, event)
  stream(view, event.messageId)
  if view.speaker ~= "assistant" then
    messages.header(view, "assistant", "pi")
  end
  parts.update(view, event.assistantMessageEvent)
end

function on.message_end(view, event)
  local message = event.message
  if message.role == "user" and view.shown == event.messageId then
    view.header.entry_id = event.entryId
    return
  end
  if message.role == "assistant" then
    stream(view, event.messageId)
  end
  messages.add(view, message, event.entryId)
  if message.role == "assistant" then
    view.streaming, view.parts, view.told = nil, {}, message.errorMessage or view.told
  end
end

function on.tool_execution_start(view, event)
  calls.start(view, event)
end

function on.tool_execution_update(view, event)
  local block, partial = calls.find(view, event.toolCallId, event.toolName), event.partialResult
  block.omitted = partial.omittedBytes
  view.document:touch(block)
  if partial.delta then
    calls.grow(view, block, partial.delta)
  else
    calls.replace(view, block, text.of_content(partial.content))
  end
end

function on.tool_execution_end(view, event)
  local block = calls.find(view, event.toolCallId, event.toolName)
  calls.finish(view, block, event.result, event.isError, event.durationMs)
end

---A command that this Neovim sends; its output is told with the same token.
function on.client_command(view, event)
  calls.command(view, event.token, event.command)
end

---It has not been run, or the daemon does not tell how it ended.
function on.client_command_failed(view, event)
  calls.give_up(view, view.commands[event.token])
  view.commands[event.token] = nil
end

function on.bash_output(view, event)
  calls.grow(view, calls.command(view, event.token or ""), event.delta)
end

function on.compaction_start(view)
  view.status.phase = "compaction"
end

function on.compaction_end(view, event)
  view.status.phase = nil
  if event.result then
    messages.add(view, {
      role = "compactionSummary",
      summary = event.result.summary,
      tokensBefore = event.result.tokensBefore,
    })
  elseif event.errorMessage then
    messages.notice(view, "error", event.errorMessage)
  end
end

function on.auto_retry_start(view, event)
  view.status.retry = event
end

function on.auto_retry_end(view)
  view.status.retry = nil
end

function on.session_changed(view, event)
  if event.phase then
    view.status.phase = event.phase ~= "idle" and event.phase or nil
  end
end

function on.diagnostic(view, event)
  view.speaker = nil
  local source = event.source and event.source .. ": " or ""
  messages.notice(view, event.severity, source .. event.message)
end

function on.client_lost(view, event)
  view.status = {}
  for _, running in ipairs({ view.calls, view.commands }) do
    for _, block in pairs(running) do
      calls.give_up(view, block)
    end
  end
  view.commands, view.speaker = {}, nil
  messages.notice(view, "error", event.message)
end

---`phase` is that of the session's state.
function on.client_snapshot(view, event)
  view.document:reset()
  view:_forget()
  messages.add_all(view, event)
  view.status.phase = event.phase ~= "idle" and event.phase or nil
end

---Follow one event of the session.
---@param event table as on the wire, or one of `pi.session`'s own
function View:apply(event)
  local handle = on[event.type]
  if handle then
    handle(self, event)
  end
end

---What has changed since it was last asked.
---@return pi.Changes?
function View:take()
  return self.document:take()
end

return View
