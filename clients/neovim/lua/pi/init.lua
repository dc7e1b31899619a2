---The functions that people's own configuration calls. Everything else is loaded when it is first used.
local M = {}

---Change options; see `:help pi-options`. Calling it is optional, and it starts nothing.
---@param options? table
function M.setup(options)
  require("pi.config").set(options)
end

---The session of this place (of this tab with `scope = "tab"`), or nil while there is none.
---@return pi.Session?
function M.session()
  return require("pi.sessions").current()
end

---All sessions that this Neovim has open, oldest first.
---@return pi.Session[]
function M.sessions()
  return require("pi.sessions").all()
end

---@class pi.PromptOptions
---@field message string what to say
---@field session? pi.Session where; by default the session of this place, begun if there is none
---@field attachments? table[] what goes with it: attachments as the protocol has them
---@field while_running? "steer"|"followUp" what to do while a run goes on (default: steer)
---@field on_done? fun(err: pi.Error?, result: pi_rpc.PromptResult?) called when the run has settled

---Say something to the agent.
---@param options pi.PromptOptions
function M.prompt(options)
  require("pi.sessions").with(options.session, function(session)
    session:prompt(options.message, {
      attachments = options.attachments,
      streamingBehavior = options.while_running or "steer",
    }, options.on_done)
  end)
end

---Call a function with every event of that type ("agent_settled", …; "*" for all), of any session.
---The same are told as autocommands, `User PiEventAgentSettled` and so on.
---@param event string
---@param fn fun(event: pi_rpc.AgentEvent, session: pi.Session)
---@return fun() off call it to hear no more
function M.on(event, fn)
  return require("pi.events").on(event, fn)
end

---What a statusline shows: model, context, cost, state. Cheap, and empty while there is no session.
---@return string
function M.statusline()
  if not package.loaded["pi.sessions"] then
    return ""
  end
  return require("pi.statusline").text()
end

---Open the chat of the session of this place.
---@param layout? string one of the layouts of `chat.layout`
function M.open(layout)
  require("pi.sessions").with(nil, function(session)
    require("pi.chat").open(session, { layout = layout })
  end)
end

---Open the chat, or close it where it is open.
function M.toggle()
  require("pi.sessions").with(nil, function(session)
    require("pi.chat").toggle(session)
  end)
end

---Stop what goes on in the session of this place.
function M.stop()
  local session = M.session()
  if session then
    require("pi.chat").stop(session)
  end
end

return M
