-- What a chat shows, from recorded streams of events: lines, highlights and folds.
local drawing = require("drawing")

local drawn, shows = drawing.drawn, drawing.shows

local ROOT = vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(debug.getinfo(1, "S").source:sub(2))))
local RECORDED = vim.fs.normalize(ROOT .. "/../../tests/golden/transcripts/v1")

---The events that a daemon has sent in a recorded exchange.
local function recorded(name)
  local events = {}
  for line in io.lines(("%s/0.1.0/%s.jsonl"):format(RECORDED, name)) do
    local frame = vim.json.decode(line, { luanil = { object = true, array = true } })
    local said = frame.daemon
    if said and said.method == "agent/event" then
      events[#events + 1] = said.params.event
    end
  end
  return events
end

local function names()
  return vim.tbl_map(function(path)
    return vim.fs.basename(path):gsub("%.jsonl$", "")
  end, vim.fn.glob(RECORDED .. "/0.1.0/*.jsonl", false, true))
end

test("a run with a tool shows who speaks, the call and its output", function(t)
  t.eq(shows(
    recorded("queue"),
    [[
## You

Do the tests pass?

## scripted

`$ sh check.sh`
~~~~~~~~~
12 tests passed
~~~~~~~~~

## You

In two words.

## scripted

They pass.

## You

Then say done.

## scripted

Done.]]
  ))
end)

test("an edit shows what it changed", function(t)
  t.eq(shows(
    recorded("editor"),
    [[
`edit a.txt`
~~~~~~~~~ diff
 1 one
-2 two
+2 2
~~~~~~~~~]]
  ))
end)

test("what was stopped says so", function(t)
  local lines = drawn(recorded("abort"), 1)
  t.eq(lines[#lines], "`Stopped.`")
end)

test("attachments are folded below what the person wrote", function(t)
  local lines, view = drawn(recorded("attachments"), 1)
  t.eq(vim.list_slice(lines, 1, 6), { "## You", "", "What does this do?", "", "Attached", "~~~~~~~~~" })
  t.eq(view.document.blocks[3].folded, true)
  t.eq(view.asked, { "What does this do?" })
end)

test("every recorded stream draws the same lines however often it is drawn", function(t)
  t.ok(#names() > 20, "recorded streams at " .. RECORDED)
  for _, name in ipairs(names()) do
    local events = recorded(name)
    local each, view = drawn(events, 1)
    t.eq(each, drawn(events, 3), name)
    t.eq(each, drawn(events, math.max(1, #events)), name)
    t.eq(view.document.rows, #events > 0 and view.document.rows > 0 and #each or 0, name)
  end
end)

---The messages that a stream has left behind.
local function messages(events)
  local all, ids = {}, {}
  for _, event in ipairs(events) do
    if event.type == "message_end" then
      all[#all + 1], ids[#ids + 1] = event.message, event.entryId
    end
  end
  return { type = "client_snapshot", messages = all, entryIds = ids, hasMore = false, phase = "idle" }
end

test("a session that is opened again looks as it did when it was streamed", function(t)
  for _, name in ipairs({ "queue", "branch", "commands", "lines", "abort", "attachments" }) do
    local events = recorded(name)
    -- The header of a stream without `message_start` has no model's name.
    local streamed = vim.tbl_map(function(line)
      return line == "## pi" and "## scripted" or line
    end, (drawn(events, 1)))
    t.eq((drawn({ messages(events) }, 1)), streamed, name)
  end
end)

test("a snapshot takes the place of all that was drawn", function(t)
  local events = recorded("queue")
  local again = vim.list_extend(vim.list_extend({}, events), { messages(recorded("lines")) })
  t.eq((drawn(again, 1)), (drawn({ messages(recorded("lines")) }, 1)))
end)
