-- The prompt with the real daemon: what is sent, what waits, what comes back.

---@param t pi.Test
local function chat_of(t, replies, options)
  t:daemon(replies, options)
  local session = t:session()
  local chat = require("pi.chat").of(session)
  require("pi.chat").open(session, {})
  return chat, session
end

local function lines(chat)
  return vim.api.nvim_buf_get_lines(chat.buffer.buffer, 0, -1, false)
end

local function shows(t, chat, words)
  t.wait("the chat shows " .. words, function()
    return table.concat(lines(chat), "\n"):find(words, 1, true)
  end)
end

local function settled(t, session)
  t.wait("the run has settled", function()
    return not session:running()
  end)
end

---A command that runs until a file is there.
local WAIT = { toolCall = { name = "bash", arguments = { command = "while [ ! -e go ]; do sleep 0.05; done" } } }

test("what is written is sent, and the prompt is empty again", function(t)
  local chat, session = chat_of(t, { { { text = "Hello." } } })
  chat.prompt:set("Say hello.")
  chat.prompt:send("steer")
  t.eq(chat.prompt:text(), "")
  shows(t, chat, "Hello.")
  settled(t, session)
  t.eq(lines(chat), { "## You", "", "Say hello.", "", "## scripted", "", "Hello." })
end)

test("nothing is sent of an empty prompt", function(t)
  local chat, session = chat_of(t, {})
  local asked = {}
  t:stub(session, "prompt", function(_, text)
    table.insert(asked, text)
  end)
  chat.prompt:set(" \n ")
  chat.prompt:send("steer")
  t.eq(asked, {})
end)

test("what the daemon refuses comes back into the prompt with what was attached", function(t)
  local chat, session = chat_of(t, {}, { session = { model = vim.NIL } })
  t:stub(session, "prompt", function(_, _, _, callback)
    callback({ code = 1102, message = "No model is configured.", data = { kind = "modelRequired" } })
  end)
  local told
  t:stub(session, "complain", function(_, err)
    told = err.message
  end)
  chat.prompt:attach({ type = "text", name = "n", text = "x" })
  chat.prompt:set("Hello?")
  chat.prompt:send("steer")
  t.eq(chat.prompt:text(), "Hello?")
  t.eq(#chat.prompt.attached, 1)
  t.eq(told, "No model is configured.")
end)

test("attachments go with one message, and those that are mentioned with theirs", function(t)
  t:write("a.txt", "one\n")
  local chat, session = chat_of(t, { { { text = "Yes." } }, { { text = "No." } } })
  chat.prompt:attach({ type = "text", name = "note", text = "remember" })
  chat.prompt:set("See @a.txt:1 and this.")
  chat.prompt:send("steer")
  shows(t, chat, "Yes.")
  local shown = table.concat(lines(chat), "\n")
  t.match(shown, '<attached%-text name="note">\nremember')
  t.match(shown, "<attached%-file path=.*a%.txt")
  t.eq(chat.prompt.attached, {})
  settled(t, session)
  chat.prompt:set("And now?")
  chat.prompt:send("steer")
  shows(t, chat, "No.")
  local _, count = table.concat(lines(chat), "\n"):gsub("remember", "")
  t.eq(count, 1)
end)

test("stopping gives back all that waited, with its attachments, before what is being written", function(t)
  local chat, session = chat_of(t, { { WAIT }, { { text = "Done." } } }, { session = { permissionMode = "full" } })
  chat.prompt:set("Run it.")
  chat.prompt:send("steer")
  shows(t, chat, "while")
  chat.prompt:set("Faster.")
  chat.prompt:attach({ type = "text", name = "note", text = "remember" })
  chat.prompt:send("steer")
  chat.prompt:set("Then rest.")
  chat.prompt:send("followUp")
  t.wait("both wait", function()
    return #session.queue.items == 2
  end)
  chat.prompt:set("own")
  chat.prompt:stop()
  t.wait("the texts are back", function()
    return chat.prompt:text() ~= "own"
  end)
  t.eq(chat.prompt:text(), "Faster.\n\nThen rest.\n\nown")
  t.eq(chat.prompt.attached, { { type = "text", name = "note", text = "remember" } })
  settled(t, session)
  shows(t, chat, "Stopped.")
end)

test("what waited comes back when the daemon dies", function(t)
  local chat, session = chat_of(t, { { WAIT }, { { text = "Done." } } }, { session = { permissionMode = "full" } })
  chat.prompt:set("Run it.")
  chat.prompt:send("steer")
  shows(t, chat, "while")
  chat.prompt:set("Faster.")
  chat.prompt:send("steer")
  t.wait("it waits", function()
    return #session.queue.items == 1
  end)
  session:on_lost("It died.")
  t.eq(chat.prompt:text(), "Faster.")
  chat.buffer:draw()
  t.eq(lines(chat)[#lines(chat)], "`It died.`")
end)

test("what a text mentions is not attached a second time when the text comes back", function(t)
  t:write("a.txt", "one\n")
  local chat, session = chat_of(t, { { WAIT }, { { text = "Done." } } }, { session = { permissionMode = "full" } })
  chat.prompt:set("Run it.")
  chat.prompt:send("steer")
  shows(t, chat, "while")
  chat.prompt:set("See @a.txt:1 there.")
  chat.prompt:attach({ type = "text", name = "note", text = "remember" })
  chat.prompt:send("followUp")
  t.wait("it waits", function()
    return #session.queue.items == 1
  end)
  chat.prompt:stop()
  t.wait("the text is back", function()
    return chat.prompt:text() == "See @a.txt:1 there."
  end)
  t.eq(chat.prompt.attached, { { type = "text", name = "note", text = "remember" } })
  settled(t, session)
end)

test("a command that the daemon refuses is shown as failed, and told", function(t)
  local chat, session = chat_of(t, {}, { session = { permissionMode = "readonly" } })
  t.result(function(done)
    session:refresh(done)
  end)
  chat.prompt:set("!ls")
  chat.prompt:send("steer")
  t.wait("the words", function()
    return t.messages[1]
  end)
  t.match(t.messages[1], "read%-only")
  t.eq(chat.buffer.view.document.blocks[1].state, "failed")
end)

test("a command of the person is shown while it runs, and the model need not read it", function(t)
  local chat = chat_of(t, {})
  chat.prompt:set("!echo one; while [ ! -e go ]; do sleep 0.05; done; echo two")
  chat.prompt:send("steer")
  shows(t, chat, "one")
  t:write("go", "")
  shows(t, chat, "one\ntwo\n~~~")
  chat.prompt:set("!!echo three")
  chat.prompt:send("steer")
  shows(t, chat, "three\n~~~")
  t.wait("it has ended", function()
    local block = chat.buffer.view.document.blocks[2]
    return block and block.state == "done" and block.private
  end)
end)

test("a session that is opened again is drawn as it was", function(t)
  local replies = {
    { { thinking = "Hm." }, { toolCall = { name = "bash", arguments = { command = "echo `date +%Y`" } } } },
    { { text = "It is **late**." } },
  }
  local chat, session = chat_of(t, replies, { session = { permissionMode = "full" } })
  t:prompt(session, "What year?")
  shows(t, chat, "late")
  local before = lines(chat)
  t.result(function(done)
    session:refresh(done)
  end)
  chat.buffer:draw()
  t.eq(lines(chat), before)
end)

test("all messages are drawn when those that are not are asked for", function(t)
  local replies = {}
  for i = 1, 4 do
    replies[i] = { { text = "Answer " .. i .. "." } }
  end
  local chat, session = chat_of(t, replies, { chat = { messages = 4 } })
  for i = 1, 4 do
    t:prompt(session, "Question " .. i .. ".")
  end
  t.result(function(done)
    session:refresh(done)
  end)
  chat.buffer:draw()
  t.eq({ lines(chat)[1], lines(chat)[5] }, { "Earlier messages are not shown.", "Question 3." })
  vim.api.nvim_set_current_win(vim.fn.win_findbuf(chat.buffer.buffer)[1])
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  chat:follow()
  shows(t, chat, "Question 1.")
end)

test("keys go from message to message", function(t)
  local chat, session = chat_of(t, { { { text = "One." } }, { { text = "Two." } } })
  t:prompt(session, "First?")
  t:prompt(session, "Second?")
  shows(t, chat, "Two.")
  vim.api.nvim_set_current_win(vim.fn.win_findbuf(chat.buffer.buffer)[1])
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  local seen = {}
  for _, step in ipairs({ 1, 1, 1, 1, -1 }) do
    chat:jump(step)
    seen[#seen + 1] = vim.api.nvim_get_current_line()
  end
  t.eq(seen, { "## scripted", "## You", "## scripted", "## scripted", "## You" })
end)

test("history goes back over what was said and returns to what is being written", function(t)
  local chat, session = chat_of(t, { { { text = "One." } }, { { text = "Two." } } })
  t:prompt(session, "first")
  t:prompt(session, "second\nline")
  shows(t, chat, "Two.")
  chat.prompt:set("draft")
  local seen = {}
  for _, step in ipairs({ 1, 1, 1, -1, -1, -1 }) do
    chat.prompt:history(step)
    seen[#seen + 1] = chat.prompt:text()
  end
  t.eq(seen, { "second\nline", "first", "first", "second\nline", "draft", "draft" })
end)

test("a completion plugin that asks the omnifunc gets the files that were found", function(t)
  t:write("src/valve.lua", "")
  t:write("src/boiler.lua", "")
  t:write("src/valve parts.lua", "")
  local chat, session = chat_of(t, {})
  local answered
  local request = session.request
  t:stub(session, "request", function(self, method, params, callback)
    return request(self, method, params, function(...)
      callback(...)
      answered = method == "file/search"
    end)
  end)
  local omnifunc = require("pi.completion").omnifunc
  chat.prompt:set("See @valv")
  vim.api.nvim_set_current_win(vim.fn.win_findbuf(chat.prompt.buffer)[1])
  t:stub(vim.api, "nvim_get_mode", function()
    return { mode = "i", blocking = false }
  end)
  vim.wo.virtualedit = "onemore"
  vim.api.nvim_win_set_cursor(0, { 1, 9 })
  t.eq(omnifunc(1, ""), 5)
  require("pi.completion").typed(chat.prompt, false)
  t.wait("what was found", function()
    return answered
  end)
  t.eq(omnifunc(0, "valv")[1].word, "src/valve.lua")
  t.eq(omnifunc(0, "valv")[2].word, [[src/valve\ parts.lua]])
  t.eq(omnifunc(0, "valve")[1].word, "src/valve.lua")
end)

test("a screen without room for the chat is told of in words", function(t)
  t:daemon({})
  local session = t:session()
  vim.o.winminheight = 1
  while pcall(vim.api.nvim_open_win, 0, true, { split = "below", win = 0 }) do
    vim.cmd.resize(1)
  end
  require("pi.chat").open(session, { layout = "below" })
  t.eq(t.messages, { "pi: there is no room here for the chat" })
  t.eq(require("pi.chat_windows").find("chat"), nil)
end)

test("a chat whose buffers were wiped out is made anew", function(t)
  local chat, session = chat_of(t, { { { text = "Hello." } } })
  t:prompt(session, "Hello?")
  shows(t, chat, "Hello.")
  vim.api.nvim_buf_delete(chat.buffer.buffer, { force = true })
  require("pi.chat").open(session)
  local again = require("pi.chat").of(session)
  t.ok(again ~= chat)
  shows(t, again, "Hello.")
  t.eq(#vim.fn.win_findbuf(again.buffer.buffer), 1)
  t.eq(#vim.fn.win_findbuf(again.prompt.buffer), 1)
end)

test("a chat whose buffers were deleted, not wiped out, is made anew with its keys", function(t)
  local chat, session = chat_of(t, { { { text = "Hello." } }, { { text = "Again." } } }, {
    chat = { keys = { stop = "" } },
  })
  t:prompt(session, "Hello?")
  shows(t, chat, "Hello.")
  for _, which in ipairs({ "buffer", "prompt" }) do
    local known = require("pi.chat").of(session)
    vim.cmd.bdelete({ known[which].buffer or known[which], bang = true })
    require("pi.chat").open(session)
    local again = require("pi.chat").of(session)
    t.ok(again ~= known)
    shows(t, again, "Hello.")
    t.ok(vim.fn.maparg("<CR>", "n", false, true).buffer == 1)
  end
  t:prompt(session, "Again?")
  shows(t, require("pi.chat").of(session), "Again.")
end)

test("a chat that is deleted during a run is left alone, and one that is read again is drawn again", function(t)
  local chat, session = chat_of(t, { { { text = "One." } }, { { text = "Two." } }, { { text = "Three." } } })
  t:prompt(session, "1")
  shows(t, chat, "One.")
  vim.api.nvim_set_current_win(require("pi.chat_windows").find("chat"))
  vim.cmd.edit({ bang = true })
  shows(t, chat, "One.")
  t:prompt(session, "2")
  shows(t, chat, "Two.")
  vim.cmd.bdelete({ bang = true })
  t:prompt(session, "3")
  require("pi.chat").open(session)
  shows(t, require("pi.chat").of(session), "Three.")
end)

test("what waited comes back into a new prompt when the old one is gone and the daemon dies", function(t)
  local chat, session = chat_of(t, { { { text = "Wait." }, { delayMs = 60000 } } })
  session:prompt("Go.", { wait = "accepted" })
  t.wait("a run", function()
    return session:running()
  end)
  session:prompt("And then?", { streamingBehavior = "followUp", wait = "accepted" })
  t.wait("a queue", function()
    return #session.queue.items > 0
  end)
  vim.api.nvim_buf_delete(chat.prompt.buffer, { force = true })
  vim.uv.kill(vim.api.nvim_get_proc_children(vim.uv.os_getpid())[1], "sigkill")
  t.wait("another prompt", function()
    return require("pi.chat").of(session).prompt:text() == "And then?"
  end)
  t.wait("another daemon", function()
    return not session.lost
  end)
end)

test("a chat whose session is closed is gone with its buffers", function(t)
  local chat, session = chat_of(t, {})
  require("pi.chat").close()
  t.result(function(done)
    session:close(done)
  end)
  t.eq(vim.api.nvim_buf_is_valid(chat.buffer.buffer), false)
  t.eq(vim.api.nvim_buf_is_valid(chat.prompt.buffer), false)
end)
