---The daemon's life as this Neovim sees it: started late, greeted, lost, back again.
test("nothing is started before something is asked", function(t)
  t:daemon({})
  t.eq(require("pi").statusline(), "")
  t.ok(not package.loaded["pi.daemon"])
end)

test("a prompt is answered and everybody hears the events in order", function(t)
  t:daemon({ { { text = "Hello." } } })
  local session = t:session()
  local events = t:events(session)
  local result = t:prompt(session, "Say hello.")
  t.eq(result.text, "Hello.")
  t.eq(result.stopReason, "stop")
  local types = vim.tbl_map(function(event)
    return event.type
  end, events)
  t.ok(vim.tbl_contains(types, "agent_start"))
  t.eq(types[#types], "agent_settled")
  t.eq(session.state.phase, "idle")
  t.eq(session.state.messageCount, 2)
end)

test("a missing program is told with the way to get it", function(t)
  require("pi").setup({ command = { "pi-rpc-that-is-not-there" } })
  local err = t.await(function(done)
    require("pi.sessions").new(nil, done)
  end)
  t.eq(err.data.kind, "noDaemon")
  t.match(err.message, "pipx install %.")
end)

test("a daemon that cannot begin is told of with its last words", function(t)
  t:daemon({})
  require("pi.config").get().env.PI_RPC_SCRIPT = "/nowhere/script.json"
  require("pi.config").get().command = { require("support").program(), "--frobnicate" }
  local err = t.await(function(done)
    require("pi.sessions").new(nil, done)
  end)
  t.eq(err.data.kind, "daemonLost")
  t.wait("the message", function()
    return t.messages[1]
  end)
  t.match(t.messages[1], "exit code 2")
  t.match(t.messages[1], "frobnicate")
  t.ok(not require("pi.daemon").running())
end)

test("a log that has grown large is put aside", function(t)
  t:daemon({})
  local log = require("pi.daemon").log_file()
  vim.fn.mkdir(vim.fs.dirname(log), "p")
  vim.fn.writefile({ ("x"):rep(1024 * 1024) }, log)
  t:after(function()
    vim.fn.delete(log .. ".old")
  end)
  t:session()
  t.eq(vim.fn.getfsize(log .. ".old"), 1024 * 1024 + 1)
  t.ok(vim.fn.getfsize(log) < 1024)
end)

---A daemon of ours: greets with a version, and answers anything else with a body as it stands.
local function pretended(t, version, body)
  local program = t:write(
    "pretended-pi-rpc",
    ([[#!/usr/bin/env python3
import json, sys

METHODS = ["session/new", "session/events", "checkpoint/list", "permission/list"]
GREETING = {"serverInfo": {"name": "pi-rpc", "version": "%s"}, "protocolVersion": 1,
            "capabilities": {"pi": {"methods": METHODS}}}
while True:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if not length:
        break
    message = json.loads(sys.stdin.buffer.read(length))
    if message["method"] == "exit":
        break
    if "id" in message:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": GREETING})
        if message["method"] == "ping":
            body = """%s"""
        sys.stdout.write("Content-Length: %%d\r\n\r\n%%s" %% (len(body), body))
        sys.stdout.flush()
]]):format(version, body or "{}")
  )
  vim.uv.fs_chmod(program, 493)
  require("pi").setup({ command = { program } })
end

test("a program that never answers the handshake is told of and ended, and who waits is told", function(t)
  require("pi").setup({ command = { "/bin/sh", "-c", "echo This is no daemon.; exec sleep 600" } })
  require("pi.daemon").HANDSHAKE_MS = 300
  local err = t.await(function(done)
    require("pi.sessions").new(nil, done)
  end)
  t.eq(err.data.kind, "daemonLost")
  t.match(table.concat(t.messages, "\n"), "/bin/sh does not answer; is the option `command` right%?")
  t.eq(require("pi.daemon").running(), false)
end)

test("a daemon that is too old is told of, and ended", function(t)
  pretended(t, "0.0.3")
  require("pi.daemon").request("ping")
  t.wait("the complaint", function()
    return t.messages[1]
  end)
  t.match(t.messages[1], "0%.0%.3 is too old")
  t.match(t.messages[1], "pipx install %-%-force")
  t.ok(not require("pi.daemon").running())
end)

test("an answer that cannot be read is told, and whoever waits for it is told, too", function(t)
  for _, body in ipairs({ "{this is no JSON", ("["):rep(2000) .. ("]"):rep(2000) }) do
    pretended(t, "0.1.0", body)
    local err = t.await(function(done)
      require("pi.daemon").request("ping", nil, done)
    end)
    t.eq(err.data.kind, "daemonLost")
    t.match(t.messages[#t.messages - 1] .. t.messages[#t.messages], "cannot read what the daemon says")
    t.wait("the end", function()
      return not require("pi.daemon").running()
    end)
  end
end)

local function kill_daemon()
  for _, pid in ipairs(vim.api.nvim_get_proc_children(vim.uv.os_getpid())) do
    vim.uv.kill(pid, "sigkill")
  end
end

test("when the daemon is killed every request is answered, and the session goes on in another", function(t)
  t:daemon({ { { text = "First." } }, { { text = "Working" }, { delayMs = 60000 } } })
  local session = t:session({ permissionMode = "edits" })
  t:prompt(session, "One.")
  local id = session.id
  local events = t:events(session)
  local given
  session:prompt("Two.", nil, function(err)
    given = err
  end)
  t.wait("the reply", function()
    return vim.iter(events):find(function(event)
      return event.type == "message_update"
    end)
  end)
  kill_daemon()
  t.wait("the answer", function()
    return given
  end)
  t.eq(given.data.kind, "daemonLost")
  t.wait("the snapshot", function()
    return vim.iter(events):find(function(event)
      return event.type == "client_snapshot"
    end)
  end)
  local lost, back
  for index, event in ipairs(events) do
    lost = event.type == "client_lost" and index or lost
    back = event.type == "client_snapshot" and index or back
  end
  t.ok(lost < back)
  t.eq(session.id, id)
  t.ok(not session.lost)
  t.wait("the word about the run", function()
    return vim.iter(t.messages):find(function(message)
      return message:find("interrupted", 1, true)
    end)
  end)
  t.eq(session.state.interrupted, true)
  t.wait("the mode it had", function()
    return session.state.permissionMode == "edits"
  end)
  t.match(t.messages[1], "signal 9")
end)

test("a session in which nothing was said gets another one in its place after a restart", function(t)
  t:daemon({ { { text = "Hello." } } })
  local session = t:session({ name = "Empty" })
  local key = session.key
  t.result(function(done)
    require("pi.daemon").restart(done)
  end)
  t.wait("the session", function()
    return not session.lost
  end)
  t.eq(session.key, key)
  t.eq(t:prompt(session, "Hello?").text, "Hello.")
  t.eq(require("pi").session(), session)
end)

test("a daemon that dies again and again is not started for ever", function(t)
  t:daemon({ { { text = "Hello." } } })
  local session = t:session()
  t:prompt(session, "Hello?")
  for count = 1, 5 do
    t.wait("the daemon", function()
      return require("pi.daemon").greeting() and not session.lost
    end)
    kill_daemon()
    t.wait("the loss", function()
      return #vim.tbl_filter(function(message)
        return message:find("pi-rpc ended", 1, true)
      end, t.messages) == count
    end)
  end
  t.ok(not require("pi.daemon").running())
  -- The person wants something: it is started once more, and the session goes on.
  t.eq(t:prompt(session, "And now?").text, "Hello.")
  t.eq(session.lost, false)
end)

test("a daemon that cannot be started again is told of, also to who wants something of its session", function(t)
  t:daemon({ { { text = "Hello." } } })
  local session = t:session()
  t:prompt(session, "Hello?")
  require("pi.config").get().command = { "pi-rpc-that-is-gone" }
  kill_daemon()
  t.wait("the words", function()
    return vim.iter(t.messages):find(function(message)
      return message:find("pi-rpc-that-is-gone is not there", 1, true)
    end)
  end)
  local err = t.await(function(done)
    session:prompt("And now?", nil, done)
  end)
  t.eq(err.data.kind, "noDaemon")
  t.eq(session.lost, true)
end)

test("a request that is cancelled is answered, though the library drops the daemon's answer", function(t)
  t:daemon({ { { text = "Hi" }, { delayMs = 60000 } } })
  local session = t:session()
  local result
  local id = session:prompt("Go.", nil, function(_, given)
    result = given
  end)
  t.wait("the run", function()
    return session.state.phase == "turn"
  end)
  require("pi.daemon").cancel(id)
  t.wait("the answer", function()
    return result
  end)
  t.eq(result.stopReason, "aborted")
  local err
  local list = session:request("file/search", { query = "x" }, function(problem)
    err = problem
  end)
  require("pi.daemon").cancel(list)
  t.eq(err.data.kind, "requestCancelled")
end)

test("nulls of the wire never reach the code behind the border", function(t)
  local scrub = require("pi.rpc").scrub
  t.eq(scrub({ 1, vim.NIL, { vim.NIL, { a = vim.NIL, b = { vim.NIL } } } }), { 1, { { b = {} } } })
  t.eq(scrub(vim.NIL), nil)
  t.eq(scrub(false), false)
end)

test("questions of the daemon that nobody knows are answered as unknown", function(t)
  local handlers = {
    request = function()
      return false
    end,
    notification = function() end,
    exit = function() end,
  }
  local connection = setmetatable(
    { over = false },
    { __index = getmetatable(require("pi.rpc").start({ "cat" }, {}, handlers)).__index }
  )
  local result, err = connection:_asked(handlers, "x/y", {})
  t.eq(result, nil)
  t.eq(err.code, -32601)
end)
