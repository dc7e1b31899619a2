---What code of the person's extensions asks and shows.
local EXTENSION = [[
from pi_rpc.harness.hook_payloads import ToolCallHookResult

def setup(api):
    async def ask(arguments):
        where = await api.ui.choose("Where?", ["here", "there"])
        sure = await api.ui.confirm("Sure?", "Really.")
        word = await api.ui.enter("A word?", prefill="abc")
        note = await api.ui.edit("A note?", "one\ntwo")
        api.ui.status("x", "all said")
        api.ui.notify(f"{where} {sure} {word} {note!r}", "warning")

    api.command("ask", "Asks", ask)
]]

local function extension(t)
  vim.fn.mkdir(t.home .. "/agent/extensions-py", "p")
  local handle = assert(io.open(t.home .. "/agent/extensions-py/asks.py", "w"))
  handle:write(EXTENSION)
  handle:close()
end

test("every kind of question is asked with vim.ui, one after the other, and answered", function(t)
  extension(t)
  t:daemon({})
  local session = t:session()
  t:choose({ "there", "Yes" })
  t:type({ "word" })
  local done
  session:prompt("/ask", nil, function(err, result)
    done = err or result
  end)
  local attention = require("pi.attention")
  local buffer
  for count = 1, 4 do
    t.wait("question " .. count, function()
      return attention.count(session.id) > 0
    end)
    vim.cmd("Pi answer")
    buffer = vim.api.nvim_get_current_buf()
  end
  t.eq(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), { "one", "two" })
  vim.api.nvim_buf_set_lines(buffer, 1, 2, false, { "three" })
  vim.cmd.write()
  t.wait("the end", function()
    return done
      and vim.iter(t.messages):find(function(message)
        return message:find("there True word", 1, true)
      end)
  end)
  t.eq(t.messages[#t.messages], [[pi: there True word 'one\nthree']])
  t.eq(done.disposition, "handled")
  t.match(require("pi").statusline(), "all said$")
  t.wait("the editor to be gone", function()
    return not vim.api.nvim_buf_is_valid(buffer)
  end)
  -- What an extension wants to be shown ends with its daemon.
  require("pi.daemon").restart()
  t.eq(require("pi").statusline():find("all said", 1, true), nil)
end)

test("a note that is being written is gone to when its question is asked for again", function(t)
  extension(t)
  t:daemon({})
  local session = t:session()
  t:choose({ "there", "Yes" })
  t:type({ "word" })
  session:prompt("/ask")
  for count = 1, 4 do
    t.wait("question " .. count, function()
      return require("pi.attention").count(session.id) > 0
    end)
    vim.cmd("Pi answer")
  end
  local buffer = vim.api.nvim_get_current_buf()
  vim.cmd.wincmd("p")
  vim.cmd("Pi answer")
  t.eq(vim.api.nvim_get_current_buf(), buffer)
  t.eq(#vim.api.nvim_list_wins(), 2)
end)

test("questions that are dismissed are answered as cancelled", function(t)
  extension(t)
  t:daemon({})
  local session = t:session()
  t:choose({ "", "" })
  t:type({})
  local done
  session:prompt("/ask", nil, function(err, result)
    done = err or result
  end)
  local attention = require("pi.attention")
  for count = 1, 4 do
    t.wait("question " .. count, function()
      return attention.count() > 0
    end)
    vim.cmd("Pi answer")
  end
  vim.cmd.quit({ bang = true })
  t.wait("the end", function()
    return done
      and vim.iter(t.messages):find(function(message)
        return message:find("None False None None", 1, true)
      end)
  end)
end)

test("an extension that cannot be loaded is told of when the session begins", function(t)
  extension(t)
  local handle = assert(io.open(t.home .. "/agent/extensions-py/broken.py", "w"))
  handle:write("def setup(api):\n    raise ValueError('half done')\n")
  handle:close()
  t:daemon({})
  t:session()
  t.wait("the word", function()
    return vim.iter(t.messages):find(function(message)
      return message:find("half done", 1, true)
    end)
  end)
end)

test("commands of extensions are offered, and put into the prompt", function(t)
  extension(t)
  t:daemon({})
  local session = t:session()
  local asked = t:choose({ "/ask" })
  vim.cmd("Pi commands")
  t.wait("the prompt", function()
    return vim.iter(vim.api.nvim_list_bufs()):find(function(buffer)
      return vim.api.nvim_buf_get_name(buffer):find("/prompt", 1, true)
        and vim.api.nvim_buf_get_lines(buffer, 0, 1, false)[1]:find("^/ask ")
    end)
  end)
  t.eq(asked[1].items, { "/ask  Asks" })
  t.ok(session)
end)
