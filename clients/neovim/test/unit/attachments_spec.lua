-- What is attached to a message: made of buffers, in bytes, named for people.
local function attachments()
  return require("pi.attachments")
end

---@param t pi.Test
local function edit(t, name, lines)
  vim.cmd.edit(vim.fn.fnameescape(t:write(name, table.concat(lines, "\n") .. "\n")))
  return vim.api.nvim_get_current_buf()
end

local function press(keys)
  vim.api.nvim_feedkeys(vim.keycode(keys), "nx", false)
end

test("a selection of letters has just these, letters of many bytes whole", function(t)
  edit(t, "a.txt", { "größer", "und", "klein" })
  press("lv4l<Esc>")
  local made = attachments().visual()
  t.eq(made.text, "rößer")
  t.eq(made.range, { start = { line = 0, character = 1 }, ["end"] = { line = 0, character = 8 } })
  t.eq(made.uri, vim.uri_from_fname(t.project .. "/a.txt"))
end)

test("a selection of lines has whole lines, in whichever direction it was made", function(t)
  edit(t, "a.txt", { "one", "two", "three" })
  press("jjVk<Esc>")
  local made = attachments().visual()
  t.eq(made.text, "two\nthree")
  t.eq(attachments().label(made), "a.txt:2-3")
end)

test("lines of a range include its last line to its end", function(t)
  local buffer = edit(t, "a.txt", { "one", "two", "three" })
  t.eq(attachments().lines(buffer, 1, 2).text, "one\ntwo")
  t.eq(attachments().label(attachments().lines(buffer, 2, 2)), "a.txt:2")
end)

test("a buffer that is no file gives its text", function(t)
  vim.cmd.enew()
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { "loose" })
  t.eq(attachments().lines(0, 1, 1), { type = "text", name = "selection", text = "loose" })
end)

test("diagnostics are those of the buffer or of the range, as the protocol has them", function(t)
  local buffer = edit(t, "a.lua", { "local x", "local y" })
  t.eq(attachments().diagnostics(buffer), nil)
  vim.diagnostic.set(vim.api.nvim_create_namespace("test"), buffer, {
    { lnum = 0, col = 6, end_lnum = 0, end_col = 7, message = "unused: x", severity = 2, source = "lint", code = "W1" },
    { lnum = 1, col = 6, message = "unused: y", severity = 1 },
  })
  t.eq(attachments().diagnostics(buffer, 1, 1).diagnostics, {
    {
      range = { start = { line = 0, character = 6 }, ["end"] = { line = 0, character = 7 } },
      message = "unused: x",
      severity = 2,
      source = "lint",
      code = "W1",
    },
  })
  t.eq(attachments().label(attachments().diagnostics(buffer)), "2 diagnostics of a.lua")
  t.eq(attachments().label(attachments().diagnostics(buffer, 2, 2)), "1 diagnostic of a.lua")
end)

test("files that a text mentions are attached once, with the lines it names, and others are not", function(t)
  t:write("src/a.lua", "")
  t:write("b c.txt", "")
  local function mentioned(text)
    return vim.tbl_map(attachments().label, attachments().mentioned(text, t.project))
  end
  t.eq(mentioned("See @src/a.lua, and (@src/a.lua)."), { "src/a.lua" })
  t.eq(mentioned("@src/a.lua:3-5"), { "src/a.lua:3-5" })
  t.eq(mentioned("@src/a.lua:7"), { "src/a.lua:7" })
  t.eq(mentioned("ada@src/a.lua @nobody @none.lua"), {})
  t.eq(mentioned("@" .. t.project .. "/src/a.lua?"), { "src/a.lua" })
end)

test("a space in the name of a file that is mentioned stands behind a backslash", function(t)
  t:write("my notes/a b.txt", "")
  local found = attachments().mentioned([[See @my\ notes/a\ b.txt:2, please.]], t.project)
  t.eq(vim.tbl_map(attachments().label, found), { "my notes/a b.txt:2" })
  t.eq(attachments().mentioned("See @my notes/a b.txt", t.project), {})
  t.eq(attachments().escaped("my notes/a b.txt"), [[my\ notes/a\ b.txt]])
  t.eq({ require("pi.completion").target([[see @my\ no]], 2) }, { "file", 5, [[my\ no]] })
end)

-- Links in a chat ------------------------------------------------------------

local function link(t, line, at)
  local found = require("pi.chat_links").at(line, assert(line:find(at, 1, true)) - 1, t.project)
  return found and { found.path:sub(#t.project + 2), found.line, found.column }
end

test("files are found under the cursor, with lines and columns, whatever stands around them", function(t)
  t:write("src/a.lua", "")
  t:write("b c.txt", "")
  t.eq(link(t, "see src/a.lua.", "a.lua"), { "src/a.lua" })
  t.eq(link(t, "see `src/a.lua:12`, then", "src"), { "src/a.lua", 12 })
  t.eq(link(t, "src/a.lua:12:3: error", "12"), { "src/a.lua", 12, 3 })
  t.eq(link(t, "[it](src/a.lua#L5)", "src"), { "src/a.lua", 5 })
  t.eq(link(t, "(src/a.lua:3-9)", "src"), { "src/a.lua", 3 })
  t.eq(link(t, "`b c.txt:2`", "c.txt"), { "b c.txt", 2 })
  t.eq(link(t, "@src/a.lua", "@"), { "src/a.lua" })
  t.eq(link(t, vim.uri_from_fname(t.project .. "/src/a.lua"), "file"), { "src/a.lua" })
end)

test("what is no file is no link, and neither is what the cursor is not on", function(t)
  t:write("src/a.lua", "")
  t.eq(link(t, "see src/b.lua", "src"), nil)
  t.eq(link(t, "see src/a.lua", "see"), nil)
  t.eq(link(t, "the folder src is", "src"), nil)
end)

test("a file opens beside a text that is not saved where it cannot be hidden", function(t)
  local path = t:write("a|b `c`.txt", "one\n")
  vim.cmd.edit(t:write("mine.txt", "mine\n"))
  vim.o.hidden = false
  t:after(function()
    vim.o.hidden = true
  end)
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { "typed" })
  require("pi.chat_links").open({ path = path, line = 1 })
  t.eq(vim.api.nvim_buf_get_name(0), path)
  t.eq(#vim.api.nvim_list_wins(), 2)
  t.eq(t.messages, {})
end)

test("a call leads to the file it works on, also when only its arguments are known", function(t)
  local path = t:write("src/a.lua", "")
  local of_block = require("pi.chat_links").of_block
  local location = { uri = vim.uri_from_fname(path), range = { start = { line = 4, character = 0 } } }
  t.eq(of_block({ kind = "tool", locations = { location } }, t.project), { path = path, line = 5 })
  t.eq(of_block({ kind = "tool", args = { path = "src/a.lua" } }, t.project), { path = path })
  t.eq(of_block({ kind = "tool", args = { path = "src/b.lua" } }, t.project), nil)
  t.eq(of_block({ kind = "tool", args = { command = "ls" } }, t.project), nil)
  t.eq(of_block({ kind = "text" }, t.project), nil)
end)

test("what was never selected is told, and not attached", function(t)
  vim.cmd.enew()
  t.eq(require("pi.attachments").visual(), nil)
end)

-- Completion ------------------------------------------------------------

test("files are completed after an at, commands after a slash that begins the text", function(t)
  local target = require("pi.completion").target
  local function of(line, row)
    return { target(line, row or 2) }
  end
  t.eq(of("see @src/a"), { "file", 5, "src/a" })
  t.eq(of("@"), { "file", 1, "" })
  t.eq(of("(@a"), { "file", 2, "a" })
  t.eq(of("ada@example"), {})
  t.eq(of("@a "), {})
  t.eq(of("/rev", 1), { "command", 1, "rev" })
  t.eq(of("/rev", 2), {})
  t.eq(of("a /rev", 1), {})
  t.eq(of("/review it", 1), {})
end)
