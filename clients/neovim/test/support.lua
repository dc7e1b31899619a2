---What tests are given: assertions, waits with a deadline, a scratch project, a daemon with a scripted model.
local M = {}

---Long enough for a machine that does much else: it costs nothing when all is well.
local DEADLINE_MS = 60000

---@class pi.Test
---@field project string a fresh directory, which is the working directory
---@field messages string[] what `vim.notify` was told
---@field private undo fun()[]
local Test = {}
Test.__index = Test

local function fail(words)
  error({ words = words .. "\n" .. debug.traceback("", 3) }, 0)
end

function Test.eq(actual, expected, what)
  if not vim.deep_equal(actual, expected) then
    fail(("%sexpected %s\ngot      %s"):format(what and what .. ": " or "", vim.inspect(expected), vim.inspect(actual)))
  end
end

function Test.ok(value, what)
  if not value then
    fail(what or "expected something true, got " .. vim.inspect(value))
  end
  return value
end

function Test.match(text, pattern)
  if type(text) ~= "string" or not text:find(pattern) then
    fail(("expected a match of %q in\n%s"):format(pattern, type(text) == "string" and text or vim.inspect(text)))
  end
end

---Wait until `fn` gives something true, and return that.
---@param what string
---@param fn fun(): any
function Test.wait(what, fn)
  local got
  local ok = vim.wait(DEADLINE_MS, function()
    got = fn()
    return got and true or false
  end, 5)
  if not ok then
    fail("it did not come to this in time: " .. what)
  end
  return got
end

---Say a figure, in the output of the tests.
---@param text string
function Test.report(text)
  io.stdout:write("# ", text, "\n")
end

---Call `fn(callback)` and wait for the callback: returns what it was given.
function Test.await(fn)
  local given
  fn(function(...)
    given = { n = select("#", ...), ... }
  end)
  Test.wait("an answer", function()
    return given
  end)
  return unpack(given, 1, given.n)
end

---As `await`, and an error fails the test.
function Test.result(fn)
  local err, result, more = Test.await(fn)
  if err then
    fail("an error came: " .. vim.inspect(err))
  end
  return result, more
end

---Replace a field until the test ends.
function Test:stub(holder, name, value)
  local before = rawget(holder, name)
  holder[name] = value
  table.insert(self.undo, function()
    holder[name] = before
  end)
end

---Called at the test's end, the last one first.
function Test:after(fn)
  table.insert(self.undo, fn)
end

---@param path string relative to the project
---@param text string
---@return string path
function Test:write(path, text)
  local full = vim.fs.joinpath(self.project, path)
  vim.fn.mkdir(vim.fs.dirname(full), "p")
  local handle = assert(io.open(full, "wb"))
  handle:write(text)
  handle:close()
  return full
end

---@param path string relative to the project
---@return string
function Test:read(path)
  local handle = assert(io.open(vim.fs.joinpath(self.project, path), "rb"))
  local text = handle:read("*a")
  handle:close()
  return text
end

---The command of the daemon that the tests use.
---@return string
function M.program()
  return (assert(os.getenv("PI_RPC"), "PI_RPC names the daemon's program"))
end

---Let a script play the model: `replies` are lists of steps.
---@param replies table[]
---@param options? table of the plugin
function Test:daemon(replies, options)
  local script = vim.tbl_map(function(steps)
    return { steps = steps }
  end, replies)
  local path = vim.fs.joinpath(self.home, "script.json")
  local handle = assert(io.open(path, "wb"))
  handle:write(vim.json.encode({ replies = script }))
  handle:close()
  require("pi").setup(vim.tbl_deep_extend("force", {
    command = { M.program() },
    env = { PI_RPC_SCRIPT = path, PI_CODING_AGENT_DIR = self.home .. "/agent", HOME = self.home },
    session = { model = "scripted/scripted" },
  }, options or {}))
end

---A session of the daemon.
---@param params? table
---@return pi.Session
function Test:session(params) -- luacheck: ignore 212
  return self.result(function(done)
    require("pi.sessions").new(params, done)
  end)
end

---Say something and wait until the run has settled.
---@param session pi.Session
---@param text string
---@return table
function Test:prompt(session, text) -- luacheck: ignore 212
  return self.result(function(done)
    session:prompt(text, nil, done)
  end)
end

---Every event of a session from now on, in a list that grows.
---@param session pi.Session
---@return table[]
function Test:events(session) -- luacheck: ignore 212
  local events = {}
  session:subscribe(function(event)
    events[#events + 1] = event
  end)
  return events
end

---Answer `vim.ui.select` by what an item reads: the first whose text holds `words`.
---@param answers string[] one for each time it is asked; "" dismisses
---@return table asked grows by `{prompt, items}` for each time
function Test:choose(answers)
  local asked = {}
  self:stub(vim.ui, "select", function(items, options, on_choice)
    local words = vim.tbl_map(options.format_item or tostring, items)
    asked[#asked + 1] = { prompt = options.prompt, items = words }
    local answer = answers[#asked]
    for index, text in ipairs(words) do
      if answer and answer ~= "" and text:find(answer, 1, true) then
        return on_choice(items[index], index)
      end
    end
    on_choice(nil, nil)
  end)
  return asked
end

---Answer `vim.ui.input`.
---@param answers string[]
---@return table[] asked
function Test:type(answers)
  local asked = {}
  self:stub(vim.ui, "input", function(options, on_confirm)
    asked[#asked + 1] = options
    on_confirm(answers[#asked])
  end)
  return asked
end

---@return pi.Test
function M.begin()
  local home = assert(vim.uv.fs_mkdtemp(vim.fs.joinpath(vim.uv.os_tmpdir(), "pi-nvim-XXXXXX")))
  home = assert(vim.uv.fs_realpath(home))
  local project = home .. "/project"
  vim.fn.mkdir(project, "p")
  vim.cmd.cd(project)
  local t = setmetatable({ home = home, project = project, messages = {}, undo = {} }, Test)
  t:stub(vim, "notify", function(message)
    table.insert(t.messages, message)
  end)
  vim.v.errmsg = ""
  return t
end

---@param t pi.Test
function M.finish(t)
  if package.loaded["pi.daemon"] then
    require("pi.daemon").stop()
  end
  for index = #t.undo, 1, -1 do
    t.undo[index]()
  end
  for name in pairs(package.loaded) do
    if name == "pi" or vim.startswith(name, "pi.") then
      package.loaded[name] = nil
    end
  end
  pcall(vim.api.nvim_clear_autocmds, { group = "pi" })
  vim.cmd("silent! tabonly! | silent! only!")
  vim.t.pi_session = nil
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    vim.api.nvim_buf_delete(buffer, { force = true })
  end
  vim.cmd.stopinsert()
  vim.cmd.cd("/")
  vim.fn.delete(t.home, "rf")
  if vim.v.errmsg ~= "" then
    error("an error message was shown: " .. vim.v.errmsg, 0)
  end
end

return M
