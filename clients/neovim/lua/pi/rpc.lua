---One daemon process and the JSON-RPC with it, over `vim.lsp.rpc`.
---
---It makes up for what that library leaves to others: every request is answered once, also when the process dies,
---when an answer cannot be read, and when it was cancelled (a -32800 never reaches a callback there); nulls within
---arrays (`vim.NIL`) do not get past here; and a question of the daemon may be answered later.
---It knows nothing of sessions.
local M = {}

---@class pi.Error
---@field code integer
---@field message string
---@field data { kind: string, [string]: any }

---@alias pi.Respond fun(result: table?, err: pi.Error?)

---@class pi.Pending
---@field method string
---@field callback fun(err: pi.Error?, result: any)

---@class pi.Connection
---@field private client vim.lsp.rpc.PublicClient
---@field private pending table<integer, pi.Pending>
---@field private over boolean
---@field private stopping boolean
local Connection = {}
Connection.__index = Connection

-- These answer with a result when they are cancelled; every other request is answered by us.
local ANSWERS_CANCEL = { prompt = true, continue = true, compact = true, branch = true, bash = true }

-- What `vim.lsp.rpc` lets a handler answer with.
M.METHOD_NOT_FOUND = -32601
M.INTERNAL_ERROR = -32603

---An error of our own, shaped like those of the daemon.
---@param kind string
---@param message string
---@return pi.Error
function M.error(kind, message)
  return { code = 0, message = message, data = { kind = kind } }
end

---An error that a question of the daemon is answered with.
---@param message string
---@return pi.Error
function M.refusal(message)
  return { code = M.INTERNAL_ERROR, message = message, data = { kind = "internalError" } }
end

---A value without `vim.NIL`: gone from objects, left out of arrays. Changes the value in place.
---@param value any
---@return any
function M.scrub(value)
  if value == vim.NIL then
    return nil
  elseif type(value) ~= "table" then
    return value
  end
  if #value > 0 then
    local kept = 0
    for index = 1, #value do
      local each = M.scrub(value[index])
      value[index] = nil
      if each ~= nil then
        kept = kept + 1
        value[kept] = each
      end
    end
    return value
  end
  for key, each in pairs(value) do
    value[key] = M.scrub(each)
  end
  return value
end

---Lua has one kind of empty table, and it would be sent as `[]`.
local function object(params)
  return (params == nil or next(params) == nil) and vim.empty_dict() or params
end

---@class pi.Handlers
---@field notification fun(method: string, params: table)
---@field request fun(method: string, params: table, answer: pi.Respond): boolean whether it knows the method
---@field exit fun(code: integer, signal: integer, asked: boolean)

---Start a daemon. Raises when the program cannot be started.
---@param command string[]
---@param env table<string, string>
---@param handlers pi.Handlers
---@return pi.Connection
function M.start(command, env, handlers)
  local self = setmetatable({ pending = {}, over = false, stopping = false }, Connection)

  local function ended(code, signal)
    if self.over then
      return
    end
    self.over = true
    local waiting = self.pending
    self.pending = {}
    for _, each in vim.spairs(waiting) do
      each.callback(M.error("daemonLost", ("pi-rpc ended before it answered %s"):format(each.method)))
    end
    handlers.exit(code, signal, self.stopping)
  end

  self.client = vim.lsp.rpc.start(command, {
    notification = function(method, params)
      if not self.over then
        handlers.notification(method, M.scrub(params or {}))
      end
    end,
    server_request = function(method, params)
      return self:_asked(handlers, method, M.scrub(params or {}))
    end,
    on_error = function(code, err)
      -- A frame that cannot be read may have been an answer somebody waits for: nothing after it can be relied on.
      local errors = vim.lsp.rpc.client_errors
      if code == errors.INVALID_SERVER_JSON or code == errors.INVALID_SERVER_MESSAGE or code == errors.READ_ERROR then
        vim.notify("pi: cannot read what the daemon says: " .. tostring(err), vim.log.levels.ERROR)
        self.client.terminate()
      elseif code ~= errors.NO_RESULT_CALLBACK_FOUND then
        vim.notify("pi: " .. tostring(err), vim.log.levels.ERROR)
      end
    end,
    -- Runs where hardly anything is allowed; scheduled, it comes after all that was read before.
    on_exit = vim.schedule_wrap(ended),
  }, { env = env })
  return self
end

---Runs as a coroutine of the library's, which waits until somebody has answered.
---@private
function Connection:_asked(handlers, method, params)
  local thread = coroutine.running()
  local answered, waiting, result, err = false, false, nil, nil
  local function answer(given, failure)
    if answered or self.over then
      return
    end
    answered = true
    result = given ~= nil and object(given) or nil
    err = failure and { code = failure.code, message = failure.message }
    if waiting then
      local ok, problem = coroutine.resume(thread)
      if not ok then
        vim.notify("pi: the answer to " .. method .. " was not sent: " .. tostring(problem), vim.log.levels.ERROR)
      end
    end
  end
  if not handlers.request(method, params, answer) then
    return nil, { code = M.METHOD_NOT_FOUND, message = "this client does not answer " .. method }
  end
  if not answered then
    waiting = true
    coroutine.yield()
  end
  return result, err
end

---Ask the daemon. The callback is called exactly once, on the main loop.
---@param method string
---@param params? table
---@param callback? fun(err: pi.Error?, result: any)
---@return integer? id for `cancel`; nil when the daemon is gone (the callback has been told)
function Connection:request(method, params, callback)
  ---@type integer?
  local id
  callback = callback or function() end
  if not self.over then
    local sent
    sent, id = self.client.request(method, object(params), function(err, result)
      local waiting = self.pending[assert(id)]
      self.pending[assert(id)] = nil
      if waiting then
        waiting.callback(M.scrub(err), M.scrub(result))
      end
    end)
    if sent and id then
      self.pending[id] = { method = method, callback = callback }
      return id
    end
  end
  vim.schedule(function()
    callback(M.error("daemonLost", "pi-rpc is not running; " .. method .. " was not sent"))
  end)
end

---@param method string
---@param params? table
function Connection:notify(method, params)
  if not self.over then
    self.client.notify(method, object(params))
  end
end

---Cancel a request that waits. What it answers then is up to the method; those that would answer with an error
---are answered here.
---@param id integer
function Connection:cancel(id)
  local waiting = self.pending[id]
  if not waiting then
    return
  end
  self:notify("$/cancelRequest", { id = id })
  if not ANSWERS_CANCEL[waiting.method] then
    self.pending[id] = nil
    waiting.callback(M.error("requestCancelled", waiting.method .. " was cancelled"))
  end
end

---End the daemon in good order; it ends its own children.
function Connection:stop()
  if self.over or self.stopping then
    return
  end
  self.stopping = true
  self:request("shutdown", nil)
  self:notify("exit")
end

---Wait until the process is gone and who waited for it is told; end it by force if that takes longer.
---@param milliseconds integer
function Connection:wait(milliseconds)
  vim.wait(milliseconds, function()
    return self.over
  end, 5)
  if not self.over then
    self.client.terminate()
  end
end

---End the process at once; who waits for it is told.
function Connection:kill()
  self.client.terminate()
end

---@return boolean
function Connection:alive()
  return not self.over
end

return M
