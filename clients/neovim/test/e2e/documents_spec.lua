---Open buffers are what the agent reads and changes.
local function edit(path, old, new)
  return { toolCall = { name = "edit", arguments = { path = path, edits = { { oldText = old, newText = new } } } } }
end

local function read(path)
  return { toolCall = { name = "read", arguments = { path = path } } }
end

local function bash(command)
  return { toolCall = { name = "bash", arguments = { command = command } } }
end

local DONE = { { text = "Done." } }

local function results(events)
  return vim
    .iter(events)
    :filter(function(event)
      return event.type == "tool_execution_end"
    end)
    :map(function(event)
      return event.result.content[1].text
    end)
    :totable()
end

local function lines(buffer)
  return vim.api.nvim_buf_get_lines(buffer or 0, 0, -1, false)
end

test("what is typed and not saved is what the agent reads", function(t)
  t:daemon({ { read("a.txt") }, DONE })
  vim.cmd.edit(t:write("a.txt", "on the disk\n"))
  local session = t:session()
  local events = t:events(session)
  vim.api.nvim_buf_set_lines(0, 0, 1, false, { "in the buffer" })
  t:prompt(session, "Read a.txt.")
  t.match(results(events)[1], "in the buffer")
end)

test("a saved buffer is edited, saved again, and undone in one step with marks and folds kept", function(t)
  local text = {}
  for number = 1, 40 do
    text[number] = "line " .. number
  end
  vim.cmd.edit(t:write("a.txt", table.concat(text, "\n") .. "\n"))
  t:daemon({
    {
      {
        toolCall = {
          name = "edit",
          arguments = {
            path = "a.txt",
            edits = {
              { oldText = "line 5\n", newText = "LINE 5\nand one more\n" },
              { oldText = "line 30\n", newText = "LINE 30\n" },
            },
          },
        },
      },
    },
    DONE,
  })
  local session = t:session({ permissionMode = "edits" })
  vim.wo.foldmethod = "manual"
  vim.cmd("10,15fold")
  vim.api.nvim_buf_set_mark(0, "a", 5, 2, {})
  vim.api.nvim_buf_set_mark(0, "b", 30, 0, {})
  vim.api.nvim_win_set_cursor(0, { 35, 3 })
  -- What was typed before is a step of its own.
  vim.api.nvim_buf_set_lines(0, 39, 40, false, { "line 40, typed" })
  vim.cmd("silent write")
  t:prompt(session, "Edit it.")
  local now = lines()
  t.eq(#now, 41)
  t.eq({ now[5], now[6], now[31], now[41] }, { "LINE 5", "and one more", "LINE 30", "line 40, typed" })
  t.eq(vim.bo.modified, false)
  t.eq(t:read("a.txt"), table.concat(now, "\n") .. "\n")
  t.eq(vim.api.nvim_win_get_cursor(0), { 36, 3 })
  t.ok(vim.api.nvim_buf_get_mark(0, "a")[1] > 0)
  t.eq(vim.api.nvim_buf_get_mark(0, "b")[1] - 30 <= 1, true)
  t.eq(vim.fn.foldclosed(11), 11)
  t.eq(vim.fn.foldclosedend(11), 16)
  vim.cmd("silent undo")
  t.eq(#lines(), 40)
  t.eq(lines()[5], "line 5")
  t.eq(lines()[30], "line 30")
  t.eq(lines()[40], "line 40, typed")
end)

test("a buffer with text of the person's own is edited and left unsaved", function(t)
  vim.cmd.edit(t:write("a.txt", "one\ntwo\n"))
  t:daemon({ { edit("a.txt", "two", "2") }, DONE })
  local session = t:session({ permissionMode = "edits" })
  local events = t:events(session)
  vim.api.nvim_buf_set_lines(0, 0, 1, false, { "ONE" })
  t:prompt(session, "Edit it.")
  t.eq(lines(), { "ONE", "2" })
  t.eq(vim.bo.modified, true)
  t.eq(t:read("a.txt"), "one\ntwo\n")
  t.match(results(events)[1], "unsaved")
end)

test("an edit for another version of the buffer is refused and changes nothing", function(t)
  vim.cmd.edit(t:write("a.txt", "one\ntwo\n"))
  local uri = vim.uri_from_fname(vim.api.nvim_buf_get_name(0))
  local documents = require("pi.documents")
  local version = vim.api.nvim_buf_get_changedtick(0)
  vim.api.nvim_buf_set_lines(0, 0, 1, false, { "typed" })
  local function apply(tick)
    local answered
    documents.apply({
      edit = {
        documentChanges = {
          {
            textDocument = { uri = uri, version = tick },
            edits = {
              {
                range = { start = { line = 1, character = 0 }, ["end"] = { line = 1, character = 3 } },
                newText = "2",
              },
            },
          },
        },
      },
    }, function(result)
      answered = result
    end)
    return answered
  end
  t.eq(apply(version), { applied = false, failureReason = "version" })
  t.eq(lines(), { "typed", "two" })
  t.eq(apply(vim.api.nvim_buf_get_changedtick(0)), { applied = true })
  t.eq(lines(), { "typed", "2" })
end)

---Read a buffer as the daemon does, apply an edit of the whole wire's kind, and read again.
local function change(t, text, range, new, options)
  local path = t:write("x.txt", text)
  vim.cmd.edit({ path, bang = true })
  for name, value in pairs(options or {}) do
    vim.bo[name] = value
  end
  local uri = vim.uri_from_fname(path)
  local documents, before, after = require("pi.documents"), nil, nil
  documents.read({ uri = uri }, function(result)
    before = result
  end)
  t.eq(before.text, text)
  documents.apply({
    edit = {
      documentChanges = {
        {
          textDocument = { uri = uri, version = before.version },
          edits = {
            {
              range = {
                start = { line = range[1], character = range[2] },
                ["end"] = { line = range[3], character = range[4] },
              },
              newText = new,
            },
          },
        },
      },
    },
  }, function(result)
    t.eq(result, { applied = true })
  end)
  documents.read({ uri = uri }, function(result)
    after = result.text
  end)
  vim.cmd("silent write!")
  t.eq(t:read("x.txt"), after)
  vim.cmd("silent undo")
  local undone = table.concat(lines(), "\n")
  t.eq(undone, (text:gsub("\n$", "")), "undone in one step")
  vim.cmd("bwipeout!")
  return after
end

test("the ends of texts are kept: last newlines, empty files, appended and removed lines", function(t)
  t.eq(change(t, "a\nb\n", { 2, 0, 2, 0 }, "c\n"), "a\nb\nc\n")
  t.eq(change(t, "a\nb\n", { 2, 0, 2, 0 }, "c"), "a\nb\nc")
  t.eq(change(t, "a\nb\n", { 1, 0, 2, 0 }, ""), "a\n")
  t.eq(change(t, "a\nb\n", { 1, 1, 2, 0 }, ""), "a\nb")
  t.eq(change(t, "a\nb\n", { 0, 0, 2, 0 }, "x"), "x")
  t.eq(change(t, "a\nb\n", { 0, 0, 2, 0 }, "x\n"), "x\n")
  t.eq(change(t, "a\nb\n", { 0, 0, 2, 0 }, ""), "")
  t.eq(change(t, "a\nb\n", { 2, 0, 2, 0 }, "\n"), "a\nb\n\n")
  t.eq(change(t, "a\nb", { 1, 1, 1, 1 }, "\n", { fixendofline = false }), "a\nb\n")
  t.eq(change(t, "a\nb", { 0, 0, 0, 1 }, "A", { fixendofline = false }), "A\nb")
  t.eq(change(t, "", { 0, 0, 0, 0 }, "a\nb\n"), "a\nb\n")
  t.eq(change(t, "", { 0, 0, 0, 0 }, "a"), "a")
  t.eq(change(t, "\n", { 0, 0, 1, 0 }, "x\n"), "x\n")
  -- Line ends of two kinds are text.
  t.eq(change(t, "a\r\nb\n", { 1, 0, 1, 1 }, "x\r\ny"), "a\r\nx\r\ny\n")
  t.eq(change(t, "ä€\n", { 0, 2, 0, 5 }, "é"), "äé\n")
end)

test("a file with CRLF keeps it, and the text is given with LF and its line ends", function(t)
  vim.cmd.edit(t:write("a.txt", "one\r\ntwo\r\n"))
  t:daemon({ { edit("a.txt", "two", "2\n3") }, DONE })
  local session = t:session({ permissionMode = "edits" })
  t:prompt(session, "Edit it.")
  t.eq(t:read("a.txt"), "one\r\n2\r\n3\r\n")
end)

test("a buffer in Latin-1 is read as text and saved as Latin-1", function(t)
  vim.cmd("edit ++enc=latin1 " .. t:write("a.txt", "caf\233 one\n"))
  t:daemon({ { read("a.txt") }, { edit("a.txt", "café one", "café two") }, DONE })
  local session = t:session({ permissionMode = "edits" })
  local events = t:events(session)
  t:prompt(session, "Edit it.")
  t.match(results(events)[1], "café one")
  t.eq(t:read("a.txt"), "caf\233 two\n")
end)

test("bytes that are no UTF-8 break no frame: the tool fails in words and the session goes on", function(t)
  vim.cmd("edit ++bad=keep " .. t:write("a.txt", "fine\n"))
  t:daemon({ { edit("a.txt", "fine", "good") }, DONE, { { text = "Still here." } } })
  local session = t:session({ permissionMode = "edits" })
  local events = t:events(session)
  vim.api.nvim_buf_set_lines(0, 0, 1, false, { "fine \255\254 \0 bytes" })
  t:prompt(session, "Edit it.")
  t.eq(vim.api.nvim_buf_get_lines(0, 0, 1, false), { "fine \255\254 \0 bytes" })
  t.ok(vim.iter(events):any(function(event)
    return event.type == "tool_execution_end" and event.isError
  end))
  t.eq(t:prompt(session, "Say \255 something.").text, "Still here.")
end)

test("a very long line is read and edited", function(t)
  local long = ("x"):rep(2000000)
  vim.cmd.edit(t:write("a.txt", "first\n" .. long .. "\nlast\n"))
  t:daemon({ { edit("a.txt", "last", "the end") }, DONE })
  local session = t:session({ permissionMode = "edits" })
  t:prompt(session, "Edit it.")
  t.eq(vim.api.nvim_buf_get_lines(0, 2, 3, false), { "the end" })
  t.eq(#vim.api.nvim_buf_get_lines(0, 1, 2, false)[1], #long)
end)

test("files that commands change are read again where nothing was typed, without a question", function(t)
  local mine = t:write("mine.txt", "mine\n")
  local theirs = t:write("theirs.txt", "old\n")
  t:daemon({ { bash("echo new > theirs.txt; echo other > mine.txt") }, DONE })
  local session = t:session({ permissionMode = "full" })
  vim.cmd.edit(mine)
  vim.api.nvim_buf_set_lines(0, 0, 1, false, { "typed" })
  vim.cmd.edit({ theirs, mods = { keepalt = true } })
  vim.o.autoread = false
  t:prompt(session, "Change them.")
  t.eq(lines(vim.fn.bufnr("theirs.txt")), { "new" })
  t.eq(lines(vim.fn.bufnr("mine.txt")), { "typed" })
  vim.o.autoread = true
end)

test("a file that is only a buffer yet is written there, its directory with it", function(t)
  vim.cmd.edit("new/deep/file.txt")
  t:daemon({
    { { toolCall = { name = "write", arguments = { path = "new/deep/file.txt", content = "born\n" } } } },
    DONE,
  })
  local session = t:session({ permissionMode = "edits" })
  t:prompt(session, "Write it.")
  t.eq(lines(vim.fn.bufnr("new/deep/file.txt")), { "born" })
  t.eq(t:read("new/deep/file.txt"), "born\n")
end)

test("an autocommand of the person that fails when a file is read again keeps nobody from hearing of it", function(t)
  vim.cmd.edit(t:write("a.txt", ""))
  t:daemon({ { { toolCall = { name = "bash", arguments = { command = "echo new > a.txt" } } } }, DONE })
  local session = t:session({ permissionMode = "full" })
  local events = t:events(session)
  local failing = vim.api.nvim_create_autocmd("BufReadPost", {
    callback = function()
      error("no such colour")
    end,
  })
  t:after(function()
    vim.api.nvim_del_autocmd(failing)
  end)
  t:prompt(session, "Write it.")
  local types = vim.tbl_map(function(event)
    return event.type
  end, events)
  t.ok(vim.tbl_contains(types, "files_changed"))
  t.match(table.concat(t.messages, "\n"), "not read again: .*no such colour")
  vim.v.errmsg = ""
end)

test("documents that are opened, saved and closed later are told", function(t)
  t:daemon({ { read("a.txt") }, DONE, { read("a.txt") }, DONE })
  local session = t:session()
  local events = t:events(session)
  vim.cmd.edit(t:write("a.txt", "disk one\n"))
  vim.api.nvim_buf_set_lines(0, 0, 1, false, { "buffer" })
  t:prompt(session, "Read it.")
  vim.cmd("bwipeout!")
  t:prompt(session, "Read it.")
  t.match(results(events)[1], "buffer")
  t.match(results(events)[2], "disk one")
end)
