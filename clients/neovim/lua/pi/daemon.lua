---The one daemon of this Neovim: started when it is first needed, again after it died, ended with Neovim.
---
---It owns what belongs to the connection as a whole: the handshake, whose event is whose, who answers which
---question, and what happens at its death. Sessions join it with `attach`.
local M = {}

M.OLDEST = "0.1.0"
local UPGRADE =
  "Install it anew (`pipx install --force .` in the checkout that the plugin is from), then `:Pi restart`."
---How long the handshake may take; a program that is no daemon may never answer it.
M.HANDSHAKE_MS = 60000
-- More deaths than these within the time, and it is started again only when somebody wants something.
local DEATHS, WITHIN_MS = 4, 180000
---A log that has grown beyond so many bytes is put aside when a daemon is started.
local MOST_LOG = 1024 * 1024

---@class pi.Attached what a session has for the daemon
---@field id string
---@field on_event fun(self, seq: integer, event: table)
---@field on_lost fun(self, message: string)
---@field on_back fun(self)
---@field lost boolean

---@type pi.Connection?
local connection
---@type table<string, any>?
local greeting
---@type table<string, pi.Attached>
local attached = {}
---@type integer[]
local deaths = {}
local greeted = false
local log_size = 0

---What the daemon writes to its standard error.
---@return string
function M.log_file()
  return vim.fs.joinpath(vim.fn.stdpath("log") --[[@as string]], "pi-rpc.log")
end

---The program: as it is configured, or where `pip` and `pipx` put it when that is not on the PATH.
---@return string? path nil when it is not there
function M.program()
  local program = require("pi.config").get().command[1]
  for _, path in ipairs({ program, vim.fs.joinpath(vim.uv.os_homedir(), ".local", "bin", program) }) do
    if vim.fn.executable(path) == 1 then
      return path
    end
  end
end

---The library would take every line of standard error for an error of its own: a shell, which the daemon then takes
---the place of, sends it to our log.
---@return string[]
local function command()
  local argv = vim.list_extend({ M.program() }, require("pi.config").get().command, 2)
  argv[#argv + 1] = "--stdio"
  if vim.fn.has("win32") == 1 then
    return vim.list_extend(argv, { "--log-file", M.log_file() })
  end
  return vim.list_extend({ "/bin/sh", "-c", 'exec "$@" 2>>"$0"', M.log_file() }, argv)
end

---The last thing in the log, if the daemon that has just ended wrote it.
---@param size integer of the log when it began
---@return string
local function last_words(size)
  local file = io.open(M.log_file(), "rb")
  if not file then
    return ""
  end
  file:seek("set", size)
  local text = vim.trim(file:read("*a") or "")
  file:close()
  local line = text:match("[^\n]*$")
  return line ~= "" and " It said: " .. require("pi.plain").line(line, 300) or ""
end

---Why the daemon cannot be used, in words with the way out; nil when nothing speaks against it.
---@return string?
function M.obstacle()
  if not M.program() then
    local way =
      "Install it (in a checkout of the project: `pipx install .`), or say where it is in the option `command`;"
    return ("%s is not there. %s `:checkhealth pi` tells more."):format(require("pi.config").get().command[1], way)
  end
end

---What speaks against a daemon that answered the handshake.
---@param result table
---@return string?
function M.unfit(result)
  local version = result.serverInfo and result.serverInfo.version or "?"
  local ok, parsed = pcall(vim.version.parse, version)
  if not ok or not parsed or vim.version.lt(parsed, M.OLDEST) then
    return ("pi-rpc %s is too old for this plugin, which needs %s or later. %s"):format(version, M.OLDEST, UPGRADE)
  end
  local known = {}
  for _, name in ipairs(vim.tbl_get(result, "capabilities", "pi", "methods") or {}) do
    known[name] = true
  end
  for _, name in ipairs({ "session/new", "session/events", "checkpoint/list", "permission/list" }) do
    if not known[name] then
      return ("pi-rpc %s does not know %s, which this plugin needs. %s"):format(version, name, UPGRADE)
    end
  end
end

---@return table
local function capabilities()
  return {
    general = { positionEncodings = { "utf-8" } },
    pi = {
      permission = true,
      ui = true,
      editor = { readDocument = true, applyEdit = true, saveDocument = true },
    },
  }
end

---@type table<string, fun(params: table, answer: pi.Respond)>
local answering = {
  ["permission/request"] = function(...)
    require("pi.permissions").ask(...)
  end,
  ["editor/readDocument"] = function(...)
    require("pi.documents").read(...)
  end,
  ["workspace/applyEdit"] = function(...)
    require("pi.documents").apply(...)
  end,
  ["editor/saveDocument"] = function(...)
    require("pi.documents").save(...)
  end,
}
for _, name in ipairs({ "select", "confirm", "input", "editor" }) do
  answering["ui/" .. name] = function(...)
    require("pi.ui")[name](...)
  end
end

---@type table<string, fun(params: table)>
local hearing = {
  ["agent/event"] = function(params)
    local session = attached[params.sessionId]
    if session then
      session:on_event(params.seq, params.event)
    end
  end,
  ["ui/notify"] = function(params)
    require("pi.ui").notify(params)
  end,
  ["ui/status"] = function(params)
    require("pi.ui").status(params)
  end,
  ["request/resolved"] = function(params)
    require("pi.attention").resolved(params.requestId)
  end,
}

local function forget()
  connection, greeting, greeted = nil, nil, false
  if package.loaded["pi.attention"] then
    require("pi.attention").clear()
  end
  if package.loaded["pi.ui"] then
    require("pi.ui").clear()
  end
end

local function too_often()
  local now = vim.uv.now()
  deaths[#deaths + 1] = now
  while deaths[1] and now - deaths[1] > WITHIN_MS do
    table.remove(deaths, 1)
  end
  return #deaths > DEATHS
end

---@param mine pi.Connection
---@param code integer
---@param signal integer
---@param asked boolean
local function died(mine, code, signal, asked)
  if mine ~= connection or asked then
    return
  end
  local was_greeted = greeted
  forget()
  local how = signal ~= 0 and ("signal %d"):format(signal) or ("exit code %d"):format(code)
  local again = was_greeted and next(attached) ~= nil and not too_often()
  local message = ("pi-rpc ended (%s)."):format(how)
    .. last_words(log_size)
    .. (again and " It is started again; your sessions go on." or " `:Pi log` shows why.")
  require("pi.complaints").brief(message, vim.log.levels.ERROR)
  for _, session in pairs(attached) do
    session:on_lost(message)
  end
  if again then
    M.start(function(err)
      if err then
        require("pi.complaints").tell(err)
      end
    end)
  end
end

---Start the daemon if none runs; sessions that were lost with the one before are opened again.
---@param callback fun(err: pi.Error?)
function M.start(callback)
  if connection then
    return callback(nil)
  end
  local rpc = require("pi.rpc")
  local obstacle = M.obstacle()
  if obstacle then
    return callback(rpc.error("noDaemon", obstacle))
  end
  vim.fn.mkdir(vim.fs.dirname(M.log_file()), "p")
  log_size = math.max(0, vim.fn.getfsize(M.log_file()))
  if log_size > MOST_LOG and vim.uv.fs_rename(M.log_file(), M.log_file() .. ".old") then
    log_size = 0
  end
  local ok, started
  ok, started = pcall(rpc.start, command(), require("pi.config").get().env, {
    notification = function(method, params)
      local hear = hearing[method]
      if hear then
        hear(params)
      end
    end,
    request = function(method, params, answer)
      local ask = answering[method]
      if ask then
        ask(params, answer)
      end
      return ask ~= nil
    end,
    exit = function(...)
      died(started, ...)
    end,
  })
  if not ok then
    return callback(rpc.error("noDaemon", "pi-rpc cannot be started: " .. tostring(started)))
  end
  connection = started
  require("pi.leaving").watch()
  started:request("initialize", {
    processId = vim.uv.os_getpid(),
    clientInfo = { name = "pi.nvim", version = tostring(vim.version()) },
    cwd = vim.fn.getcwd(),
    capabilities = capabilities(),
  }, function(err, result)
    if err and err.data.kind == "daemonLost" then
      return
    end
    local unfit = not err and M.unfit(result)
    if err or unfit then
      local message = unfit or err.message
      started:stop()
      forget()
      vim.notify("pi: " .. message, vim.log.levels.ERROR)
      return
    end
    greeted, greeting = true, result
  end)
  vim.defer_fn(function()
    if started == connection and not greeted then
      local words = "pi: %s does not answer; is the option `command` right?"
      vim.notify(words:format(M.program() or "pi-rpc"), vim.log.levels.ERROR)
      started:kill()
    end
  end, M.HANDSHAKE_MS)
  -- What is asked now waits behind the handshake, in the daemon.
  require("pi.documents").watch()
  for _, session in pairs(vim.tbl_extend("force", {}, attached)) do
    if session.lost then
      session:on_back()
    end
  end
  callback(nil)
end

---Ask the daemon, which is started if need be.
---@param method string
---@param params? table
---@param callback? fun(err: pi.Error?, result: any)
---@return integer? id for `cancel`
function M.request(method, params, callback)
  local id
  M.start(function(err)
    if err then
      if callback then
        callback(err)
      end
      return
    end
    id = assert(connection):request(method, params, callback)
  end)
  return id
end

---@param method string
---@param params? table
function M.notify(method, params)
  if connection then
    connection:notify(method, params)
  end
end

---@param id integer
function M.cancel(id)
  if connection then
    connection:cancel(id)
  end
end

---@return boolean
function M.running()
  return connection ~= nil
end

---What the daemon said in the handshake; nil before.
---@return table?
function M.greeting()
  return greeting
end

---@param session pi.Attached
function M.attach(session)
  attached[session.id] = session
end

---@param id string
function M.detach(id)
  attached[id] = nil
end

---End the daemon, and wait for its end.
function M.stop()
  local ending = connection
  if ending then
    ending:stop()
    ending:wait(2000)
    forget()
  end
end

---End the daemon and start it again; sessions go on.
---@param callback? fun(err: pi.Error?)
function M.restart(callback)
  M.stop()
  for _, session in pairs(attached) do
    session:on_lost("pi-rpc was started again.")
  end
  M.start(callback or function() end)
end

return M
