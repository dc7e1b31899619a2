---The parts of a model's message: text, thinking and tool calls, as they stream and as they are in the end.
---
---Works on a `pi.View`. Does not own the output of tools (`pi.render_calls`).
local calls = require("pi.render_calls")
local text = require("pi.render_text")

local M = {}

---Begin a part of each kind; returns its block.
---@type table<string, fun(view: pi.View, start: table): pi.Block>
local begin = {}

function begin.text(view)
  return view.document:add({ kind = "text" }, "")
end

function begin.thinking(view)
  if view.options.thinking == "hidden" then
    return { hidden = true }
  end
  -- The tail lies in the fold, too: what is added above it is folded with the rest.
  local block = view.document:add({ kind = "thinking", head = { "Thinking" }, tail = { "" }, fold = true }, "")
  view.document:fold(block, view.options.thinking == "folded")
  return block
end

function begin.toolCall(view, start)
  return calls.find(view, start.id, start.toolName)
end

---The whole text of a part has arrived; what was streamed of it usually is the same.
---@param view pi.View
local function finish_text(view, block, whole)
  if block.hidden or block.finished then
    return
  end
  local streamed = table.concat(block.pieces or {})
  local fence = text.open_fence(whole)
  if fence or whole:sub(1, #streamed) ~= streamed then
    -- A fence that is left open would make code of all that follows.
    local tail = fence and vim.list_extend({ fence }, block.tail) or nil
    view.document:rewrite(block, { tail = tail }, whole)
  elseif #whole > #streamed then
    view.document:append(block, whole:sub(#streamed + 1))
  end
  block.pieces, block.finished = nil, true
end

---Draw what `message` has and is not drawn yet: at its end, in a session's history, or while it streams.
---@param view pi.View
---@param message pi_rpc.AssistantMessage
---@param streaming? boolean more of it is to come
function M.reconcile(view, message, streaming)
  for i, part in ipairs(message.content) do
    local block = view.parts[i - 1]
    if part.type == "toolCall" then
      block = begin.toolCall(view, { id = part.id, toolName = part.name })
      calls.know(view, part.id, block, part.arguments)
    elseif begin[part.type] then
      local whole = part.text or part.thinking or ""
      if not block and whole ~= "" then
        block = begin[part.type](view, part)
      end
      if block and streaming and not block.hidden then
        block.pieces = { whole }
        view.document:append(block, whole)
      elseif block then
        finish_text(view, block, whole)
      end
    end
    view.parts[i - 1] = block
  end
end

local function part(kind, view, event)
  local block = view.parts[event.contentIndex]
  if not block then
    block = begin[kind](view, event)
    view.parts[event.contentIndex] = block
  end
  return block
end

local function delta(kind, view, event)
  local block = part(kind, view, event)
  if not block.hidden then
    block.pieces = block.pieces or {}
    block.pieces[#block.pieces + 1] = event.delta
    view.document:append(block, event.delta)
  end
end

---What to do at each step of a stream.
---@type table<string, fun(view: pi.View, event: table)>
local on = {}

for prefix, kind in pairs({ text = "text", thinking = "thinking" }) do
  on[prefix .. "_start"] = function(view, event)
    part(kind, view, event)
  end
  on[prefix .. "_delta"] = function(view, event)
    delta(kind, view, event)
  end
  on[prefix .. "_end"] = function(view, event)
    finish_text(view, part(kind, view, event), event.content)
  end
end

function on.toolcall_start(view, event)
  part("toolCall", view, event)
end

function on.toolcall_delta(view, event)
  local block = view.parts[event.contentIndex]
  if block then
    block.written = (block.written or 0) + #event.delta
    view.document:touch(block)
  end
end

function on.toolcall_end(view, event)
  local call = event.toolCall
  local block = part("toolCall", view, { contentIndex = event.contentIndex, id = call.id, toolName = call.name })
  calls.know(view, call.id, block, call.arguments)
end

---One step of a message that streams.
---@param view pi.View
---@param event table its `assistantMessageEvent`
function M.update(view, event)
  local handle = on[event.type]
  if handle then
    handle(view, event)
  end
end

return M
