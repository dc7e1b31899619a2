-- What a chat shows of streams made here: what models, tools and people may do, and what nobody should.
local View = require("pi.render")
local drawing = require("drawing")
local marks = require("pi.render_marks")

local drawn, shows = drawing.drawn, drawing.shows

local function assistant(...)
  local usage = { input = 10, output = 5, cacheRead = 0, cacheWrite = 0, totalTokens = 15, cost = { total = 0.5 } }
  return { role = "assistant", model = "m", content = { ... }, usage = usage, stopReason = "stop" }
end

local function update(kind, index, fields)
  local event = vim.tbl_extend("force", { type = kind, contentIndex = index }, fields or {})
  return { type = "message_update", messageId = "a", assistantMessageEvent = event }
end

local function begun()
  return { { type = "message_start", messageId = "a", message = assistant() } }
end

local function with(events, ...)
  return vim.list_extend(events, { ... })
end

local function call(id, name, args, title)
  return { type = "tool_execution_start", toolCallId = id, toolName = name, args = args, title = title or name }
end

local function output(id, delta)
  return { type = "tool_execution_update", toolCallId = id, toolName = "bash", partialResult = { delta = delta } }
end

local function result(id, name, text, fields)
  return vim.tbl_extend("force", {
    type = "tool_execution_end",
    toolCallId = id,
    toolName = name,
    isError = false,
    result = { content = { { type = "text", text = text } }, details = {} },
  }, fields or {})
end

test("tools that run at once each show their own output", function(t)
  local events = with(
    begun(),
    call("1", "bash", { command = "a" }, "$ a"),
    call("2", "bash", { command = "b" }, "$ b"),
    output("1", "one\n"),
    output("2", "ONE\nTW"),
    output("1", "two\n"),
    output("2", "O\n"),
    result("2", "bash", "ONE\nTWO\n"),
    result("1", "bash", "one\ntwo\n")
  )
  t.eq(shows(
    events,
    [[
## m

`$ a`
~~~~~~~~~
one
two
~~~~~~~~~
`$ b`
~~~~~~~~~
ONE
TWO
~~~~~~~~~]]
  ))
end)

test("a result takes the place of what was shown while it ran", function(t)
  local events =
    with(begun(), call("1", "bash", { command = "a" }, "$ a"), output("1", "a long out"), result("1", "bash", "cut\n"))
  t.eq(shows(events, "## m\n\n`$ a`\n~~~~~~~~~\ncut\n~~~~~~~~~"))
end)

test("a result that only goes on is added to what is shown, not drawn anew", function(t)
  local view = View.new()
  drawn(with(begun(), call("1", "bash", {}, "$ a"), output("1", ("x\n"):rep(1000))), 1, view)
  view:apply(result("1", "bash", ("x\n"):rep(1000) .. "\nCommand exited with code 3"))
  local edits = view:take().edits
  t.eq(#edits, 1)
  t.eq(edits[1].lines, { "", "", "Command exited with code 3" })
end)

test("a fence that a text leaves open makes no code of what follows", function(t)
  local events = with(begun(), update("text_delta", 0, { delta = "```lua\nx" }))
  with(events, { type = "message_end", messageId = "a", message = assistant({ type = "text", text = "```lua\nx" }) })
  t.eq(shows(events, "## m\n\n```lua\nx\n```"))
end)

test("output that looks like the end of its fence stays inside", function(t)
  local events = with(begun(), call("1", "bash", {}, "$ a"), result("1", "bash", "a\n~~~~~~~~~\n# b"))
  t.eq(shows(events, "## m\n\n`$ a`\n~~~~~~~~~\na\n    ~~~~~~~~~\n# b\n~~~~~~~~~"))
end)

test("of lines that a command has written over, the last is left when it is done", function(t)
  local said = "10%\r50%\r100%\r\nok\r\n"
  local events = with(begun(), call("1", "bash", {}, "$ a"), output("1", said), result("1", "bash", said))
  t.eq(shows(events, "## m\n\n`$ a`\n~~~~~~~~~\n100%\nok\n~~~~~~~~~"))
end)

test("a title is shown as it is, whatever Markdown would make of it", function(t)
  t.eq(shows(with(begun(), call("1", "bash", {}, "$ echo `a` ``b``\n*x*")), "## m\n\n```$ echo `a` ``b`` *x*```"))
end)

test("very long lines are cut between letters, and marked where they are", function(t)
  local long = ("ä"):rep(30000)
  local lines = drawn(with(begun(), update("text_delta", 0, { delta = long:sub(1, 50001) })), 1)
  -- A delta ends between letters on the wire; here the last one is cut, and stays as it came.
  lines = vim.list_slice(lines, 3)
  for i = 1, #lines - 1 do
    t.match(lines[i], " ↩$")
    lines[i] = lines[i]:sub(1, -1 - #" ↩")
    t.ok(#lines[i] <= 8192)
    t.eq(vim.str_utf_end(lines[i], #lines[i]), 0)
  end
  t.eq(table.concat(lines), long:sub(1, 50001))
end)

test("long lines are cut at the same places however they arrive", function(t)
  local long, whole, pieces = ("x"):rep(20001) .. "\n" .. ("y"):rep(9000), begun(), begun()
  with(whole, update("text_delta", 0, { delta = long }))
  for i = 1, #long, 77 do
    with(pieces, update("text_delta", 0, { delta = long:sub(i, i + 76) }))
  end
  t.eq((drawn(pieces, 5)), (drawn(whole, 1)))
end)

test("thinking is folded from its first word on, and can be hidden", function(t)
  local events = with(
    begun(),
    update("thinking_start", 0),
    update("thinking_delta", 0, { delta = "hm\nhm" }),
    update("thinking_end", 0, { content = "hm\nhm" }),
    update("text_delta", 1, { delta = "So." })
  )
  local lines, view = drawn(events, 1)
  t.eq(lines, { "## m", "", "Thinking", "hm", "hm", "", "", "So." })
  t.eq(view.document.blocks[2].folded, true)
  t.eq((drawn(events, 1, View.new({ thinking = "hidden" }))), { "## m", "", "So." })
  local _, open = drawn(events, 1, View.new({ thinking = "open" }))
  t.eq(open.document.blocks[2].folded, false)
end)

test("long outputs are folded when the tool is done, short ones are not", function(t)
  local function folded(lines)
    local _, view = drawn(with(begun(), call("1", "bash", {}, "$ a"), result("1", "bash", ("x\n"):rep(lines))), 1)
    return view.document.blocks[2].folded
  end
  t.eq(folded(10), false)
  t.eq(folded(11), true)
end)

test("parts that were never streamed are shown at the message's end", function(t)
  local whole = assistant(
    { type = "thinking", thinking = "hm" },
    { type = "text", text = "Look:" },
    { type = "toolCall", id = "1", name = "bash", arguments = { command = "ls" } }
  )
  local lines = drawn({ { type = "message_end", messageId = "a", message = whole } }, 1)
  t.eq(lines, { "## m", "", "Thinking", "hm", "", "", "Look:", "", "`$ ls`" })
end)

test("one who comes late sees what is said so far, and it goes on", function(t)
  local live = { message = assistant({ type = "text", text = "Once up" }), tools = {}, requests = {} }
  local snapshot = { type = "client_snapshot", messages = {}, entryIds = {}, hasMore = false, live = live }
  local events =
    { snapshot, update("text_delta", 0, { delta = "on a" }), update("text_end", 0, { content = "Once upon a" }) }
  with(events, { type = "message_end", messageId = "a", message = assistant({ type = "text", text = "Once upon a" }) })
  t.eq((drawn(events, 1)), { "## m", "", "Once upon a" })
end)

test("one who comes late sees the output of a tool that runs", function(t)
  local tool = { toolCallId = "1", toolName = "bash", args = { command = "make" }, output = "one\n" }
  local live = { tools = { tool }, requests = {} }
  local snapshot = { type = "client_snapshot", messages = {}, entryIds = {}, hasMore = true, live = live }
  local events = { snapshot, output("1", "two\n"), result("1", "bash", "one\ntwo\n") }
  t.eq((drawn(events, 1)), {
    "Earlier messages are not shown.",
    "",
    "`$ make`",
    "~~~~~~~~~",
    "one",
    "two",
    "~~~~~~~~~",
  })
end)

test("calls of earlier and those that run are called what the daemon calls them", function(t)
  local places = { { uri = "file:///engine/a.lua" } }
  local description = { toolCallId = "1", kind = "edit", title = "Rename x to y", locations = places }
  local tool = { toolCallId = "2", toolName = "rename", title = "Rename y to z", locations = places, args = {} }
  local message = assistant({ type = "toolCall", id = "1", name = "rename", arguments = { from = "x" } })
  local _, view = drawn({
    {
      type = "client_snapshot",
      messages = { message },
      entryIds = { "e" },
      calls = { description },
      live = { tools = { vim.tbl_extend("error", tool, { output = "" }) } },
    },
  }, 1)
  local earlier, running = view.document.blocks[2], view.document.blocks[3]
  t.eq({ earlier.title, earlier.locations }, { "Rename x to y", places })
  t.eq({ running.title, running.locations }, { "Rename y to z", places })
end)

test("commands of the person show their output and whether the model reads them", function(t)
  local done = {
    role = "bashExecution",
    command = "ls",
    output = "a\nb\n",
    cancelled = false,
    truncated = false,
    exitCode = 2,
  }
  done.excludeFromContext = true
  local events = {
    { type = "client_command", token = "t", command = "ls" },
    { type = "bash_output", token = "t", delta = "a\n" },
    { type = "message_start", messageId = "b", message = done },
    { type = "message_end", messageId = "b", entryId = "e", message = done },
  }
  local lines, view = drawn(events, 1)
  t.eq(lines, { "`$ ls`", "~~~~~~~~~", "a", "b", "~~~~~~~~~" })
  t.eq(marks.detail(view.document.blocks[1]), "exit 2 · not for the model")
  t.eq(view.document.blocks[1].state, "failed")
end)

test("what goes on is kept for the line above the chat", function(t)
  local view = View.new()
  view:apply({ type = "agent_start", runId = "r" })
  view:apply({ type = "auto_retry_start", attempt = 1, maxAttempts = 3, delayMs = 10, errorMessage = "busy" })
  t.eq(view.status.phase, "turn")
  t.eq(view.status.retry.attempt, 1)
  view:apply({ type = "agent_settled", runId = "r", stopReason = "stop", aborted = false })
  t.eq(view.status.phase, nil)
  t.eq(view.status.retry, nil)
end)

test("a daemon that dies leaves no call running", function(t)
  local _, view = drawn(with(begun(), call("1", "bash", {}, "$ a"), { type = "client_lost", message = "It died." }), 1)
  t.eq(view.document.blocks[2].state, "failed")
  t.eq(view.document.blocks[3].level, "error")
  _, view =
    drawn({ { type = "client_command", token = "1", command = "a" }, { type = "client_lost", message = "x" } }, 1)
  t.eq(view.document.blocks[1].state, "failed")
  t.eq(view.commands, {})
end)

test("events, parts and roles that nobody knows are passed over", function(t)
  local events = with(
    begun(),
    { type = "aurora" },
    update("hologram_delta", 0, { delta = "x" }),
    { type = "message_end", messageId = "z", message = { role = "oracle", content = "x" } }
  )
  t.eq((drawn(events, 1)), { "## m" })
end)

-- Random streams: whatever comes in whatever order, how often it is drawn makes no difference.

local PIECES =
  { "word ", "\n", "\n\n", "```lua\n", "```", "~~~~~~~~~\n", "\r\n", "\r", "ä", "- a\n", ("x"):rep(5000), "`", "" }

local function random_text()
  local parts = {}
  for i = 1, math.random(0, 6) do
    parts[i] = PIECES[math.random(#PIECES)]
  end
  return table.concat(parts)
end

local function random_event(known)
  local index, id = math.random(0, 3), tostring(math.random(3))
  local kinds = {
    function()
      return update("text_delta", index, { delta = random_text() })
    end,
    function()
      return update("thinking_delta", index, { delta = random_text() })
    end,
    function()
      return update("text_end", index, { content = random_text() })
    end,
    function()
      return call(id, "bash", { command = random_text() }, "$ " .. random_text())
    end,
    function()
      return output(id, random_text())
    end,
    function()
      return { type = "bash_output", token = id, delta = random_text() }
    end,
    function()
      return result(id, "bash", random_text(), { isError = math.random(2) == 1 })
    end,
    function()
      known.n = known.n + 1
      local message = assistant({ type = "text", text = random_text() })
      message.stopReason = ({ "stop", "aborted", "length", "error" })[math.random(4)]
      return { type = "message_end", messageId = math.random(2) == 1 and "a" or "m" .. known.n, message = message }
    end,
    function()
      known.n = known.n + 1
      local message = { role = "user", content = random_text(), timestamp = 1 }
      return { type = "message_start", messageId = "m" .. known.n, message = message }
    end,
    function()
      return { type = "diagnostic", severity = "warning", message = random_text() }
    end,
    function()
      return math.random(10) == 1 and { type = "client_lost", message = "It died." } or { type = "agent_start" }
    end,
  }
  return kinds[math.random(#kinds)]()
end

test("random streams draw the same lines however often they are drawn, and the rows of blocks add up", function(t)
  for seed = 1, 25 do
    math.randomseed(seed)
    local events, known = {}, { n = 0 }
    for i = 1, 60 do
      events[i] = random_event(known)
    end
    local each, view = drawn(events, 1)
    for _, step in ipairs({ 7, #events }) do
      local others = drawn(events, step)
      for i = 1, math.max(#each, #others) do
        t.eq(others[i], each[i], ("seed %d, step %d, line %d"):format(seed, step, i))
      end
    end
    t.eq(#each, view.document.rows, "seed " .. seed)
    for _, block in ipairs(view.document.blocks) do
      local row = view.document:row(block)
      t.eq({ view.document:at(row) }, { block, row }, "seed " .. seed)
      t.eq(each[row + 1], block.head[1] or each[row + 1], "seed " .. seed)
    end
  end
end)

-- Marks ------------------------------------------------------------------------------------------------------------

test("the title of a call says its state, and a diff has its colours", function(t)
  local diff = { content = {}, details = { diff = " 1 a\n-2 b\n+2 c" } }
  local events = with(begun(), call("1", "edit", { path = "x" }, "edit x"))
  with(events, result("1", "edit", "", { result = diff, durationMs = 2500 }))
  local _, view = drawn(events, 1)
  local block = view.document.blocks[2]
  t.eq(marks.icon(block), { "✓ ", "PiDone" })
  t.eq(marks.detail(block), "2.5 s")
  local groups = {}
  for _, mark in ipairs(marks.marks(block, view.document.height(block))) do
    groups[#groups + 1] = { mark.row, mark.hl_group or mark.conceal_lines and "fence" or mark.virt_text[1][2] }
  end
  t.eq(groups, {
    { 0, "PiTool" },
    { 3, "PiRemoved" },
    { 4, "PiAdded" },
    { 2, "PiOutput" },
    { 1, "fence" },
    { 5, "fence" },
    { 0, "PiDone" },
    { 0, "PiDetail" },
  })
end)

test("a diff has its colours below a line that was cut, too", function(t)
  local diff = { content = {}, details = { diff = "-" .. ("a"):rep(10000) .. "\n+b" } }
  local _, view = drawn(with(begun(), call("1", "edit", {}, "edit x"), result("1", "edit", "", { result = diff })), 1)
  local block, rows = view.document.blocks[2], {}
  for _, mark in ipairs(marks.marks(block, view.document.height(block))) do
    if mark.hl_group == "PiRemoved" or mark.hl_group == "PiAdded" then
      rows[mark.hl_group] = { mark.row, mark.end_row }
    end
  end
  t.eq(rows, { PiRemoved = { 2, 4 }, PiAdded = { 4, 5 } })
end)

test("a reply's header tells what it has taken and cost, over all its turns", function(t)
  local message = assistant({ type = "text", text = "a" })
  local events = {
    { type = "message_end", messageId = "a", message = message },
    { type = "message_end", messageId = "b", message = message },
  }
  local _, view = drawn(events, 1)
  t.eq(marks.detail(view.document.blocks[1]), "10 in, 10 out · $1.0000")
end)
