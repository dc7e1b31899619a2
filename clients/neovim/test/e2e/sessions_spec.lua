---Sessions: begun, found again, branched, forked, shared between places and processes.
local function say(text)
  return { { text = text } }
end

local function named(name)
  return vim.iter(vim.api.nvim_list_bufs()):find(function(buffer)
    return vim.api.nvim_buf_get_name(buffer):find(name, 1, true)
  end)
end

local function prompt_text()
  local buffer = named("/prompt")
  return buffer and table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
end

test("the Lua API prompts, begins a session for it, and tells how it ended", function(t)
  t:daemon({ say("Hello.") })
  local heard
  require("pi").on("agent_settled", function(event, session)
    heard = { event.stopReason, session.id }
  end)
  local result = t.result(function(done)
    require("pi").prompt({ message = "Hello?", on_done = done })
  end)
  t.eq(result.text, "Hello.")
  t.eq(heard, { "stop", require("pi").session().id })
  t.eq(#require("pi").sessions(), 1)
end)

test("events that were missed are asked for, and come once and in order", function(t)
  t:daemon({ say("One."), say("Two.") })
  local session = t:session()
  local events = t:events(session)
  -- Some events never arrive; what follows does.
  local on_event = session.on_event
  session.on_event = function(self, seq, event)
    if seq < 4 or seq > 8 then
      on_event(self, seq, event)
    end
  end
  t:prompt(session, "First.")
  session.on_event = nil
  t.wait("the end", function()
    return events[#events] and events[#events].type == "agent_settled"
  end)
  local text, starts = nil, 0
  for _, event in ipairs(events) do
    starts = starts + (event.type == "message_start" and 1 or 0)
    if event.type == "message_end" and event.message.role == "assistant" then
      text = event.message.content[1].text
    end
    t.ok(event.type ~= "client_snapshot")
  end
  t.eq(text, "One.")
  t.eq(starts, 2)
end)

test("where events are missing for good, everybody draws anew", function(t)
  t:daemon({ say("One.") })
  local session = t:session()
  local events = t:events(session)
  t:prompt(session, "First.")
  session.state.epoch = "another"
  session:on_event(session.seq + 7, { type = "turn_start" })
  local snapshot = t.wait("the snapshot", function()
    return vim.iter(events):find(function(event)
      return event.type == "client_snapshot"
    end)
  end)
  t.eq(#snapshot.messages, 2)
  t.eq(#snapshot.entryIds, 2)
end)

test("a snapshot taken while a run goes on fits what follows", function(t)
  t:daemon({ { { repeatText = "word ", count = 400 }, { delayMs = 2000 }, { text = "end" } } })
  local session = t:session()
  local run
  session:prompt("Go.", nil, function(_, result)
    run = result
  end)
  t.wait("the run", function()
    return session.state.phase == "turn"
  end)
  local events = t:events(session)
  session:refresh()
  t.wait("the end", function()
    return run and events[#events] and events[#events].type == "agent_settled"
  end)
  local first = events[1]
  t.eq(first.type, "client_snapshot")
  -- What was live then, and what came since, is the whole text.
  local text = ""
  for _, block in ipairs(first.live and first.live.message and first.live.message.content or {}) do
    text = text .. (block.text or "")
  end
  local final
  for _, event in ipairs(events) do
    local update = event.assistantMessageEvent
    if event.type == "message_update" and update.type == "text_delta" and update.contentIndex == 0 then
      text = text .. update.delta
    elseif event.type == "message_end" and event.message.role == "assistant" then
      final = event.message.content[1].text
    end
  end
  t.eq(text, final)
end)

test("a stored session is picked from a list and opened with its chat", function(t)
  t:daemon({ say("Hello.") })
  local session = t:session({ name = "The valve" })
  t:prompt(session, "Hello?")
  local id = session.id
  t.await(function(done)
    session:close(done)
  end)
  t.eq(require("pi").session(), nil)
  local asked = t:choose({ "The valve" })
  vim.cmd("Pi sessions")
  t.wait("the chat", function()
    return require("pi").session() and named("pi://" .. id:sub(-8))
  end)
  t.match(asked[1].items[1], "The valve  %(2 messages%)")
  t.eq(require("pi").session().id, id)
  vim.cmd("Pi close")
  vim.cmd("Pi forget")
  t.wait("the end", function()
    return not require("pi").session()
  end)
  vim.cmd("Pi resume")
  t.wait("the session", function()
    return require("pi").session()
  end)
  t.eq(require("pi").session().id, id)
end)

test("going back to a message puts it into the prompt, and everybody draws the other branch", function(t)
  t:daemon({ say("One."), say("Two.") })
  local session = t:session()
  t:prompt(session, "First question")
  t:prompt(session, "Second question")
  local events = t:events(session)
  local asked = t:choose({ "Second question", "Go on from here" })
  vim.cmd("Pi tree")
  t.wait("the prompt", function()
    return prompt_text() == "Second question"
  end)
  t.match(table.concat(asked[1].items, "\n"), "● assistant: Two%.")
  local snapshot = vim.iter(events):find(function(event)
    return event.type == "client_snapshot"
  end)
  t.eq(#snapshot.messages, 2)
end)

test("a fork is a session of its own with the path to the message", function(t)
  t:daemon({ say("One."), say("Two.") })
  local session = t:session()
  t:prompt(session, "First question")
  t:prompt(session, "Second question")
  t:choose({ "Second question", "Fork before it" })
  vim.cmd("Pi tree")
  t.wait("the fork", function()
    return #require("pi").sessions() == 2 and prompt_text()
  end)
  local fork = require("pi").session()
  t.ok(fork ~= session)
  t.eq(fork.state.messageCount, 2)
  t.wait("the prompt", function()
    return vim.iter(vim.api.nvim_list_bufs()):any(function(buffer)
      return vim.api.nvim_buf_get_lines(buffer, 0, 1, false)[1] == "Second question"
    end)
  end)
  t.eq(session.state.messageCount, 4)
end)

test("entries are labelled, and labels are seen in the tree", function(t)
  t:daemon({ say("One.") })
  local session = t:session()
  t:prompt(session, "First question")
  local asked = t:choose({ "First question", "Label it", "" })
  t:type({ "start here" })
  vim.cmd("Pi tree")
  t.wait("the label", function()
    local result = t.result(function(done)
      session:request("session/tree", nil, done)
    end)
    return vim.iter(result.nodes):any(function(node)
      return node.label == "start here"
    end)
  end)
  vim.cmd("Pi tree")
  t.wait("the list", function()
    return asked[3]
  end)
  t.match(table.concat(asked[3].items, "\n"), "First question  %[start here%]")
end)

test("model, thinking level and mode are chosen from lists or by name, and seen", function(t)
  t:daemon({})
  local session = t:session()
  t:choose({ "high", "readonly", "scripted/scripted" })
  vim.cmd("Pi thinking")
  t.wait("the level", function()
    return session.state.thinkingLevel == "high"
  end)
  vim.cmd("Pi mode")
  t.wait("the mode", function()
    return session.state.permissionMode == "readonly"
  end)
  vim.cmd("Pi mode edits")
  t.wait("the mode", function()
    return session.state.permissionMode == "edits"
  end)
  vim.cmd("Pi model scripted/nothing")
  t.wait("the complaint", function()
    return t.messages[1]
  end)
  t.match(t.messages[1], "nothing")
  vim.cmd("Pi name The valve")
  t.wait("the name", function()
    return session.state.name == "The valve"
  end)
  t.match(require("pi").statusline(), "^pi: scripted · %d+%%%% · idle$")
end)

test("a conversation is compacted, and the figures are told", function(t)
  local replies = {}
  for number = 1, 6 do
    replies[number] = { { repeatText = "much was said ", count = 4000 } }
  end
  replies[7], replies[8] = say("A summary."), say("A summary of a part.")
  t:daemon(replies)
  local session = t:session()
  for number = 1, 6 do
    t:prompt(session, "Say much, " .. number)
  end
  vim.cmd("Pi compact be brief")
  t.wait("the word", function()
    return vim.iter(t.messages):find(function(message)
      return message:find("tokens became", 1, true)
    end)
  end)
end)

test("what a run changed is shown as a diff and taken back", function(t)
  t:write("valve.txt", "The valve is red.\n")
  t:daemon({
    {
      {
        toolCall = {
          name = "edit",
          arguments = { path = "valve.txt", edits = { { oldText = "red", newText = "green" } } },
        },
      },
    },
    say("Done."),
  })
  local session = t:session({ permissionMode = "edits" })
  t:prompt(session, "Paint it.")
  vim.cmd.edit("valve.txt")
  t:choose({ "Paint it", "Show what", "Paint it", "Put all its files back" })
  vim.cmd("Pi checkpoints")
  t.wait("the diff", function()
    return vim.bo.filetype == "diff"
  end)
  t.match(
    table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n"),
    "%-The valve is red%.\n%+The valve is green%."
  )
  vim.cmd.close()
  vim.cmd("Pi checkpoints")
  t.wait("the word", function()
    return vim.iter(t.messages):find(function(message)
      return message:find("1 restored", 1, true)
    end)
  end)
  t.eq(t:read("valve.txt"), "The valve is red.\n")
  t.eq(vim.api.nvim_buf_get_lines(vim.fn.bufnr("valve.txt"), 0, -1, false), { "The valve is red." })
end)

test("what is about a session begins none", function(t)
  t:daemon({})
  for _, name in ipairs({ "stop", "queue", "tree", "stats", "forget", "compact" }) do
    vim.cmd("Pi " .. name)
    t.match(t.messages[#t.messages], "no session here yet")
  end
  t.ok(not require("pi.daemon").running())
end)

test("a selection within a line is attached as it is, by its mapping", function(t)
  t:daemon({})
  local session = t:session()
  vim.cmd.edit(t:write("valve.txt", "The valve is red.\n"))
  vim.keymap.set("x", "gs", "<Plug>(pi-attach)", { buffer = true })
  vim.api.nvim_feedkeys(vim.keycode("<Esc>") .. "wvegs", "xt", false)
  local attached = require("pi.chat").of(session).prompt.attached
  t.wait("the attachment", function()
    return attached[1]
  end)
  t.eq(attached[1].text, "valve")
  t.eq(attached[1].range, { start = { line = 0, character = 4 }, ["end"] = { line = 0, character = 9 } })
end)

test("each tab has a session of its own where that is wanted", function(t)
  t:daemon({}, { scope = "tab" })
  local first = t:session()
  vim.cmd.tabnew()
  t.eq(require("pi").session(), nil)
  local second = t:session()
  t.eq(require("pi").session(), second)
  vim.cmd.tabprevious()
  t.eq(require("pi").session(), first)
end)

test("a session works where it was begun, also after :cd; the next one elsewhere", function(t)
  t:daemon({ { { toolCall = { name = "read", arguments = { path = "a.txt" } } } }, say("Done.") })
  t:write("a.txt", "here\n")
  t:write("sub/a.txt", "there\n")
  local session = t:session()
  local events = t:events(session)
  vim.cmd.cd("sub")
  t:prompt(session, "Read it.")
  local read = vim.iter(events):find(function(event)
    return event.type == "tool_execution_end"
  end)
  t.match(read.result.content[1].text, "here")
  t.eq(t:session().state.cwd, t.project .. "/sub")
end)

test("a session that another Neovim writes is opened to look only, and goes on in a fork", function(t)
  t:daemon({ say("Hello."), say("In the fork.") })
  local session = t:session()
  t:prompt(session, "Hello?")
  local id = session.id
  -- The other one: a daemon of its own that has the session open.
  local handlers = {
    request = function()
      return false
    end,
    notification = function() end,
    exit = function() end,
  }
  local options = require("pi.config").get()
  t.await(function(done)
    session:close(done)
  end)
  local other = require("pi.rpc").start({ options.command[1], "--stdio" }, options.env, handlers)
  t.result(function(done)
    other:request("initialize", { cwd = t.project }, done)
  end)
  t.result(function(done)
    other:request("session/open", { sessionId = id }, done)
  end)
  local here = t.result(function(done)
    require("pi.sessions").open({ sessionId = id }, done)
  end)
  t.eq(here.readonly, true)
  t.match(t.messages[#t.messages], "another process writes this session %(process %d+%)")
  t.match(require("pi").statusline(), "read%-only")
  local err = t.await(function(done)
    here:prompt("Hello?", nil, done)
  end)
  t.ok(err)
  vim.cmd("Pi fork")
  t.wait("the fork", function()
    local now = require("pi").session()
    return now and now.id ~= id and now
  end)
  t.eq(require("pi").session().readonly, false)
  t.ok(t:prompt(require("pi").session(), "And now?").text)
  other:stop()
  other:wait(60000)
end)

test("what the project brings along is told of once and counts when it is trusted", function(t)
  t:write(".pi/settings.json", '{"defaultThinkingLevel": "high"}\n')
  t:daemon({})
  local session = t:session()
  t.wait("the word", function()
    return vim.iter(t.messages):find(function(message)
      return message:find(":Pi trust", 1, true)
    end)
  end)
  t:choose({ "Trust it" })
  vim.cmd("Pi trust")
  t.wait("the trust", function()
    local result = t.result(function(done)
      session:request("trust/get", { cwd = t.project }, done)
    end)
    return result.trusted
  end)
end)

test("a key is set without being shown, and removed", function(t)
  t:daemon({})
  local session = t:session()
  t:choose({ "Type the key" })
  t:stub(vim.fn, "inputsecret", function()
    return "sk-not-a-real-key"
  end)
  vim.cmd("Pi auth anthropic")
  t.wait("the key", function()
    return vim.iter(t.messages):find(function(message)
      return message:find("anthropic has a key now", 1, true)
    end)
  end)
  t.eq(table.concat(t.messages, "\n"):find("sk-not", 1, true), nil)
  local asked = t:choose({ "Anthropic", "Remove the key" })
  vim.cmd("Pi auth")
  t.wait("the removal", function()
    return vim.iter(t.messages):find(function(message)
      return message:find("the key was removed", 1, true)
    end)
  end)
  t.match(table.concat(asked[1].items, "\n"), "Anthropic %(usable")
  t.ok(session)
end)

test("a command of the person's own runs, a conversation is exported, figures are shown", function(t)
  t:daemon({ say("Hello.") })
  local session = t:session()
  local events = t:events(session)
  t:prompt(session, "Hello?")
  vim.cmd("Pi bash echo mine")
  t.wait("the output", function()
    return vim.iter(events):find(function(event)
      return event.type == "message_end" and event.message.role == "bashExecution"
    end)
  end)
  vim.cmd("Pi export talk.md")
  t.wait("the file", function()
    return vim.uv.fs_stat("talk.md")
  end)
  t.match(t:read("talk.md"), "Hello%?")
  vim.cmd("Pi stats")
  t.wait("the figures", function()
    return vim.iter(t.messages):find(function(message)
      return message:find("tool calls", 1, true)
    end)
  end)
end)

test("checkhealth tells the version, models and the log; and a missing program", function(t)
  t:daemon({})
  local told = {}
  for _, kind in ipairs({ "start", "ok", "warn", "error", "info" }) do
    t:stub(vim.health, kind, function(text)
      told[#told + 1] = kind .. ": " .. text
    end)
  end
  require("pi.health").check()
  local text = table.concat(told, "\n")
  t.match(text, "ok: pi%-rpc %d+%.%d+%.%d+, protocol 1")
  t.match(text, "models of .*scripted")
  t.eq(text:find("error:", 1, true), nil)
  require("pi.daemon").stop()
  require("pi").setup({ command = { "pi-rpc-that-is-not-there" }, scope = "window" })
  told = {}
  require("pi.health").check()
  t.match(table.concat(told, "\n"), "error: scope must be one of")
  t.match(table.concat(told, "\n"), "error: pi%-rpc%-that%-is%-not%-there is not there")
end)
