---Questions of the daemon: told of, never in the way, answered by what the person chooses.
local EDIT = {
  toolCall = { name = "edit", arguments = { path = "valve.txt", edits = { { oldText = "red", newText = "green" } } } },
}

local function bash(command)
  return { toolCall = { name = "bash", arguments = { command = command } } }
end

---Start a prompt that will ask, and wait for the question.
local function asked(t, session, text)
  local run = {}
  session:prompt(text or "Do it.", nil, function(err, result)
    run.err, run.result = err, result
  end)
  t.wait("the question", function()
    return require("pi.attention").count() > 0
  end)
  return run
end

local function settled(t, run)
  t.wait("the end of the run", function()
    return run.result or run.err
  end)
  t.eq(run.err, nil)
  return run.result
end

local function tool_result(events)
  local found = vim
    .iter(events)
    :filter(function(event)
      return event.type == "tool_execution_end"
    end)
    :last()
  return found.result.content[1].text
end

test("a question is told of and waits; the window and mode of the person stay", function(t)
  t:daemon({ { bash("touch made") }, { { text = "Done." } } })
  local file = t:write("notes.txt", "mine\n")
  vim.cmd.edit(file)
  local session = t:session()
  local windows, window = #vim.api.nvim_list_wins(), vim.api.nvim_get_current_win()
  local run = asked(t, session)
  t.eq(#vim.api.nvim_list_wins(), windows)
  t.eq(vim.api.nvim_get_current_win(), window)
  t.eq(vim.api.nvim_get_current_buf(), vim.fn.bufnr("notes.txt"))
  t.match(t.messages[#t.messages], ":Pi answer – %$ touch made")
  t.match(require("pi").statusline(), "1 question$")
  local choice = t:choose({ "Allow" })
  vim.cmd("Pi answer")
  t.match(choice[1].prompt, "touch made")
  settled(t, run)
  t.ok(vim.uv.fs_stat("made"))
  t.match(require("pi").statusline(), "idle$")
end)

test("the choice says in words what would be remembered, and the whole command is shown", function(t)
  local command = "make " .. ("x"):rep(150) .. " && rm -r docs"
  t:daemon({ { bash(command) }, { { text = "Done." } } })
  local session = t:session()
  local run = asked(t, session)
  local shown
  t:stub(vim.ui, "select", function(items, options, on_choice)
    local texts = vim.tbl_map(options.format_item, items)
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= "" then
        shown = table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false), "\n")
      end
    end
    t.ok(
      vim.iter(texts):any(function(text)
        return text:find("Always allow in this project: the command", 1, true)
      end),
      vim.inspect(texts)
    )
    for index, text in ipairs(texts) do
      if text == "Reject" then
        on_choice(items[index], index)
      end
    end
  end)
  vim.cmd("Pi answer")
  t.match(shown, vim.pesc("$ " .. command))
  t.match(shown, "need permission")
  settled(t, run)
  -- The window that showed it is gone.
  t.eq(#vim.api.nvim_list_wins(), 1)
end)

test("a rejection with a word is read by the model, and the run goes on", function(t)
  t:daemon({ { bash("rm -r docs") }, { { text = "Understood." } } })
  local session = t:session()
  local events = t:events(session)
  local run = asked(t, session)
  t:choose({ "Reject, and say why" })
  t:type({ "Keep the docs." })
  vim.cmd("Pi answer")
  t.eq(settled(t, run).text, "Understood.")
  t.match(tool_result(events), "Keep the docs%.")
end)

test("a question that is dismissed waits on, and what is remembered answers the next", function(t)
  t:daemon({ { bash("cat one") }, { bash("cat two") }, { { text = "Done." } } })
  local session = t:session()
  local run = asked(t, session)
  t:choose({ "", "commands like" })
  vim.cmd("Pi answer")
  t.eq(require("pi.attention").count(), 1)
  vim.cmd("Pi answer")
  t.eq(settled(t, run).text, "Done.")
  t.eq(#vim.tbl_filter(function(message)
    return message:find(":Pi answer –", 1, true)
  end, t.messages), 1)
end)

test("a question that was aborted is taken away", function(t)
  t:daemon({ { bash("echo one") }, { { text = "Done." } } })
  local session = t:session()
  local run = asked(t, session)
  t.result(function(done)
    session:abort(done)
  end)
  t.eq(settled(t, run).stopReason, "aborted")
  t.eq(require("pi.attention").count(), 0)
  vim.cmd("Pi answer")
  t.match(t.messages[#t.messages], "nothing waits")
end)

test("where that is wanted, a question opens while the cursor is in its chat, and elsewhere it waits", function(t)
  t:daemon({ { bash("touch one") }, { bash("touch two") }, { { text = "Done." } } }, { questions = { open = "chat" } })
  local session = t:session()
  local here = vim.api.nvim_get_current_win()
  require("pi.chat").open(session)
  vim.cmd.stopinsert()
  vim.api.nvim_set_current_win(require("pi.chat_windows").find("chat"))
  local asked_for = t:choose({ "Allow", "Allow" })
  local done
  local off = session:subscribe(function(event)
    if event.type == "tool_execution_end" then
      vim.api.nvim_set_current_win(here)
    end
  end)
  session:prompt("Do it.", nil, function(_, result)
    done = result
  end)
  t.wait("the second question, which waits", function()
    return require("pi.attention").count() == 1 and #asked_for == 1
  end)
  t.eq(vim.api.nvim_get_current_win(), here)
  vim.cmd("Pi answer")
  t.wait("the end", function()
    return done
  end)
  off()
end)

test("an edit is reviewed in a diff and written as the person changed it", function(t)
  t:write("valve.txt", "The valve is red.\nIt is open.\n")
  t:daemon({ { EDIT }, { { text = "Done." } } })
  local session = t:session()
  local events = t:events(session)
  local run = asked(t, session)
  t:choose({ "Review" })
  vim.cmd("Pi answer")
  t.eq(#vim.api.nvim_list_tabpages(), 2)
  local windows = vim.api.nvim_tabpage_list_wins(0)
  t.eq(#windows, 2)
  local function lines(window)
    return vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
  end
  t.eq(lines(windows[1]), { "The valve is red.", "It is open." })
  t.eq(lines(windows[2]), { "The valve is green.", "It is open." })
  for _, window in ipairs(windows) do
    t.eq(vim.wo[window].diff, true)
  end
  t.eq(vim.api.nvim_get_current_win(), windows[2])
  t.eq(t:read("valve.txt"), "The valve is red.\nIt is open.\n")
  vim.api.nvim_buf_set_lines(0, 0, 1, false, { "The valve is blue." })
  vim.cmd.write()
  settled(t, run)
  t.eq(t:read("valve.txt"), "The valve is blue.\nIt is open.\n")
  t.match(tool_result(events), "changed it before it was written")
  t.eq(#vim.api.nvim_list_tabpages(), 1)
end)

test("hunks can be dropped one by one", function(t)
  local original = {}
  for number = 1, 30 do
    original[number] = "line " .. number
  end
  local text = table.concat(original, "\n") .. "\n"
  t:write("list.txt", text)
  local new = text:gsub("line 3\n", "LINE 3\n"):gsub("line 27\n", "LINE 27\n")
  t:daemon({
    { { toolCall = { name = "write", arguments = { path = "list.txt", content = new } } } },
    { { text = "Done." } },
  })
  local session = t:session()
  local run = asked(t, session)
  t:choose({ "Review" })
  vim.cmd("Pi answer")
  -- It begins at the first hunk.
  t.eq(vim.api.nvim_win_get_cursor(0)[1], 3)
  vim.api.nvim_feedkeys("gd", "xt", false)
  t.eq(vim.api.nvim_buf_get_lines(0, 2, 3, false), { "line 3" })
  vim.api.nvim_feedkeys("ga", "xt", false)
  settled(t, run)
  t.eq(t:read("list.txt"), (text:gsub("line 27\n", "LINE 27\n")))
end)

test("a review is rejected with a key and a word, and nothing is written", function(t)
  t:write("valve.txt", "The valve is red.\n")
  t:daemon({ { EDIT }, { { text = "Done." } } })
  local session = t:session()
  local events = t:events(session)
  local run = asked(t, session)
  t:choose({ "Review" })
  t:type({ "Leave it." })
  vim.cmd("Pi answer")
  vim.api.nvim_feedkeys("gr", "xt", false)
  settled(t, run)
  t.eq(t:read("valve.txt"), "The valve is red.\n")
  t.match(tool_result(events), "Leave it%.")
  t.eq(#vim.api.nvim_list_tabpages(), 1)
end)

test("a review that is closed decides nothing, and can be opened again", function(t)
  t:write("valve.txt", "The valve is red.\n")
  t:daemon({ { EDIT }, { { text = "Done." } } })
  local session = t:session()
  local run = asked(t, session)
  t:choose({ "Review", "Review" })
  vim.cmd("Pi answer")
  vim.cmd.tabclose()
  t.eq(require("pi.attention").count(), 1)
  vim.cmd("Pi answer")
  t.eq(#vim.api.nvim_list_tabpages(), 2)
  vim.cmd.write()
  settled(t, run)
  t.eq(t:read("valve.txt"), "The valve is green.\n")
end)

test("a review that is open is gone back to, with what was changed in it", function(t)
  t:write("valve.txt", "The valve is red.\n")
  t:daemon({ { EDIT }, { { text = "Done." } } })
  local session = t:session()
  local run = asked(t, session)
  t:choose({ "Review" })
  vim.cmd("Pi answer")
  vim.api.nvim_buf_set_lines(0, 0, 1, false, { "The valve is blue." })
  vim.cmd.tabprevious()
  vim.cmd("Pi answer")
  t.eq(#vim.api.nvim_list_tabpages(), 2)
  t.eq(vim.api.nvim_buf_get_lines(0, 0, -1, false), { "The valve is blue." })
  vim.cmd.write()
  settled(t, run)
  t.eq(t:read("valve.txt"), "The valve is blue.\n")
end)

test("a new file without a last newline is written so", function(t)
  t:daemon({
    { { toolCall = { name = "write", arguments = { path = "new/file.lua", content = "return 1" } } } },
    { { text = "Done." } },
  })
  local session = t:session()
  local run = asked(t, session)
  t:choose({ "Review" })
  vim.cmd("Pi answer")
  t.eq(vim.bo.filetype, "lua")
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { "return 2" })
  vim.cmd.write()
  settled(t, run)
  t.eq(t:read("new/file.lua"), "return 2")
end)

test("the file below a review that changes is asked about again with what the edit comes to now", function(t)
  t:write("valve.txt", "The valve is red.\n")
  t:daemon({ { EDIT }, { { text = "Done." } } })
  local session = t:session()
  local run = asked(t, session)
  t:choose({ "Review", "Review" })
  vim.cmd("Pi answer")
  t:write("valve.txt", "Now: the valve is red.\n")
  vim.cmd.write()
  t.wait("the other question", function()
    return require("pi.attention").count() == 1 and #vim.api.nvim_list_tabpages() == 1
  end)
  vim.cmd("Pi answer")
  t.eq(vim.api.nvim_buf_get_lines(0, 0, -1, false), { "Now: the valve is green." })
  vim.cmd.write()
  settled(t, run)
  t.eq(t:read("valve.txt"), "Now: the valve is green.\n")
end)

test("remembered answers are listed and forgotten", function(t)
  t:daemon({ { bash("echo one") }, { { text = "Done." } }, { bash("echo one") }, { { text = "Done." } } })
  local session = t:session()
  local run = asked(t, session)
  t:choose({ "Always allow in this project: the command", "the command `echo one`" })
  vim.cmd("Pi answer")
  settled(t, run)
  vim.cmd("Pi rules")
  t.wait("the rule to be gone", function()
    local result = t.result(function(done)
      session:request("permission/list", nil, done)
    end)
    return #result.rules == 0
  end)
  asked(t, session)
end)
