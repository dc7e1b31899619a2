---What can be asked of a session: the methods of `pi.Session` that send a request and little more.
---@class pi.Verbs
---@field id string
---@field lost boolean
---@field when_back fun(self: pi.Verbs, fn: fun(err: pi.Error?))
---@field refresh fun(self: pi.Verbs, callback?: fun(err: pi.Error?))
local Verbs = {}

---Show what went wrong, to the person.
---@param err pi.Error
function Verbs:complain(err) -- luacheck: ignore 212
  require("pi.complaints").tell(err)
end

---@param method string
---@param params? table
---@param callback? fun(err: pi.Error?, result: any) without one, an error is shown to the person
---@return integer? id for `pi.daemon.cancel`; nil while the session is still to come back from a lost daemon
function Verbs:request(method, params, callback)
  callback = callback or function(err)
    if err then
      self:complain(err)
    end
  end
  if self.lost then
    return self:when_back(function(err)
      if err then
        return callback(err)
      end
      self:request(method, params, callback)
    end)
  end
  params = vim.tbl_extend("force", { sessionId = self.id }, params or {})
  return require("pi.daemon").request(method, params, callback)
end

---A message on its way: what the editor has open is told first, so that the model reads what the person sees.
---@private
function Verbs:_say(method, message, options, callback)
  require("pi.documents").flush()
  local params = vim.tbl_extend("force", { message = message }, options or {})
  return self:request(method, params, callback)
end

---@class pi.SayOptions
---@field attachments? table[]
---@field images? table[]
---@field clientMessageId? string
---@field streamingBehavior? "steer"|"followUp" only of `prompt`: what to do while a run goes on
---@field wait? "settled"|"accepted" only of `prompt`: when to answer

---@param message string
---@param options? pi.SayOptions
---@param callback? fun(err: pi.Error?, result: pi_rpc.PromptResult?)
---@return integer? id
function Verbs:prompt(message, options, callback)
  return self:_say("prompt", message, options, callback)
end

---@param message string
---@param options? pi.SayOptions
---@param callback? fun(err: pi.Error?, result: table?)
function Verbs:steer(message, options, callback)
  return self:_say("steer", message, options, callback)
end

---@param message string
---@param options? pi.SayOptions
---@param callback? fun(err: pi.Error?, result: table?)
function Verbs:follow_up(message, options, callback)
  return self:_say("followUp", message, options, callback)
end

---@param callback? fun(err: pi.Error?, result: pi_rpc.PromptResult?)
function Verbs:continue(callback)
  require("pi.documents").flush()
  return self:request("continue", nil, callback)
end

---Stop what goes on. The answer has what waited (`items`), to be given back.
---@param callback? fun(err: pi.Error?, result: pi_rpc.AbortResult?)
function Verbs:abort(callback)
  return self:request("abort", nil, callback)
end

---@param instructions? string
---@param callback? fun(err: pi.Error?, result: pi_rpc.CompactResult?)
function Verbs:compact(instructions, callback)
  return self:request("compact", { customInstructions = instructions }, callback)
end

---Go on from another entry. Everybody draws anew before the callback is called.
---@param params { entryId: string, summarize?: boolean, customInstructions?: string, label?: string }
---@param callback? fun(err: pi.Error?, result: pi_rpc.BranchResult?)
function Verbs:branch(params, callback)
  return self:request("branch", params, function(err, result)
    if err then
      return callback and callback(err) or self:complain(err)
    end
    self:refresh(function()
      if callback then
        callback(nil, result)
      end
    end)
  end)
end

---@param params { entryId?: string, position?: "before"|"at" }
---@param callback fun(err: pi.Error?, result: pi_rpc.SessionForkResult?, fork: pi.Session?)
function Verbs:fork(params, callback)
  return self:request("session/fork", params, function(err, result)
    if err then
      return callback(err)
    end
    require("pi.sessions").open({ sessionId = result.sessionId }, function(problem, fork)
      callback(problem, result, fork)
    end)
  end)
end

---Run a command of the person's own.
---@param command string
---@param options? { cwd?: string, excludeFromContext?: boolean, token?: string }
---@param callback? fun(err: pi.Error?, result: pi_rpc.BashResult?)
---@return integer? id
function Verbs:bash(command, options, callback)
  return self:request("bash", vim.tbl_extend("force", { command = command }, options or {}), callback)
end

---@param settings table params of `session/configure`
---@param callback? fun(err: pi.Error?, state: pi_rpc.SessionState?)
function Verbs:configure(settings, callback)
  return self:request("session/configure", settings, callback)
end

---Take everything out of the queue, and get it.
---@param callback? fun(err: pi.Error?, result: pi_rpc.AbortResult?)
function Verbs:clear_queue(callback)
  return self:request("queue/clear", nil, callback)
end

---@param id string an item's
---@param callback? fun(err: pi.Error?, result: pi_rpc.AbortResult?)
function Verbs:unqueue(id, callback)
  return self:request("queue/remove", { id = id }, callback)
end

return Verbs
