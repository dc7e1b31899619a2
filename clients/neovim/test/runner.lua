---Runs one file of tests inside the editor: `nvim -l test/runner.lua FILE`.
---
---A file calls `test("a sentence of what comes out", function(t) … end)`. `t` has what tests need: `t.eq`, `t.ok`,
---`t.match`, `t.wait`, `t.daemon`, … (test/support.lua). Each test is told as one line, `ok` or `not ok`.
local root =
  vim.fs.dirname(vim.fs.dirname(vim.fs.abspath and vim.fs.abspath(arg[0]) or vim.fn.fnamemodify(arg[0], ":p")))
vim.opt.runtimepath:prepend(root)
package.path = root .. "/test/?.lua;" .. package.path
vim.cmd.runtime("plugin/pi.lua")
-- Nothing may wait for a key: a test that would is a test that fails.
vim.o.more = false
vim.o.swapfile = false
-- Without a screen these would stand among the lines of the results.
vim.o.showmode = false
vim.o.shortmess = vim.o.shortmess .. "F"

local file = arg[1]
local wanted = os.getenv("PI_TEST_ONLY")
local tests = {}

---@param name string
---@param fn fun(t: table)
function _G.test(name, fn)
  tests[#tests + 1] = { name = name, fn = fn }
end

local function say(line)
  io.stdout:write(line, "\n")
  io.stdout:flush()
end

local loaded, problem = xpcall(dofile, debug.traceback, file)
if not loaded then
  say("not ok " .. file)
  say(tostring(problem))
  os.exit(1)
end

local support = require("support")
local passed, failed = 0, 0
for _, each in ipairs(tests) do
  if not wanted or each.name:find(wanted, 1, true) then
    local t = support.begin()
    local started = vim.uv.hrtime()
    local ok, err = xpcall(each.fn, function(message)
      return type(message) == "table" and message.words or debug.traceback(message, 2)
    end, t)
    local ended, trouble = xpcall(support.finish, debug.traceback, t)
    if ok and not ended then
      ok, err = false, trouble
    end
    if ok then
      passed = passed + 1
    else
      failed = failed + 1
    end
    local name = ("%s: %s"):format(vim.fs.basename(file), each.name)
    if ok then
      say(("ok %s (%.2f s)"):format(name, (vim.uv.hrtime() - started) / 1e9))
    else
      say("not ok " .. name)
      for line in vim.gsplit(tostring(err), "\n", { plain = true }) do
        say("    " .. line)
      end
      for _, message in ipairs(vim.list_slice(t.messages, math.max(1, #t.messages - 9))) do
        say("    told: " .. message)
      end
    end
  end
end
say(("%s: %d passed, %d failed"):format(vim.fs.basename(file), passed, failed))
os.exit(failed > 0 and 1 or 0)
