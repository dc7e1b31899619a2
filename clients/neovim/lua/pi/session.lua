---One session of the daemon, as this Neovim sees it.
---
---The contract with everything that draws a session:
---
---  session.id, session.state (SessionState, kept up to date), session.queue (Queue), session.readonly, session.lost
---  session.key                            a number of our own that stays, while `id` may be another after a restart;
---                                         a buffer of a chat has it as `vim.b.pi_session`
---  session:running()                      whether something goes on (run, compaction, branch, retry)
---  session:subscribe(fn) -> unsubscribe   `fn(event)` for each event, in order, none twice, none missing
---  session:refresh()                      everybody gets `client_snapshot` next, then what came meanwhile
---  session:prompt / steer / follow_up / continue / abort / compact / branch / fork / bash / configure / …
---
---A subscriber gets the daemon's events (`event.type` as on the wire), whose effect is in `session.state` already,
---and these of our own:
---
---  client_snapshot {messages, entryIds, hasMore, calls, live}  forget what was drawn and draw this: after `refresh`,
---                                         after events were missed for good, after another branch, after a restart.
---                                         `calls` describe those in the messages; `live` is what `session/state` says
---                                         of a run that goes on.
---  client_lost {message, queue}           the daemon is gone: nothing runs any more, and `queue` had waited; a
---                                         snapshot follows if it comes back
---  client_question {question} / client_answered {question}   something waits for the person (see pi.attention)
---  client_closed                          the session is closed here; no more events
---
---A chat that opens: `subscribe`, then `refresh`. A callback is `fn(err, result)`; `err` is a `pi.Error`.

---@class pi.Session: pi.Attached, pi.Verbs
---@field id string
---@field key integer
---@field state pi_rpc.SessionState
---@field queue pi_rpc.Queue
---@field ["readonly"] boolean opened only to look, because another process writes it
---@field closed boolean? it is closed here
---@field lost boolean the daemon is gone and this session with it, so far
---@field message_limit? integer how many messages a snapshot has, where it is not the option's number
---@field private params table what it was begun with
---@field private seq integer the last event that subscribers have had
---@field private drawn integer how many snapshots were told
---@field private held { seq: integer, event: table }[]? events that wait for a snapshot or for what was missed
---@field private returning boolean it is being opened in a daemon that was started again
---@field private waiting fun(err: pi.Error?)[] what is to be done once that has come to an end
---@field private subscribers table<integer, fun(event: table)>
---@field private next_subscriber integer
local Session = {}
Session.__index = function(_, name)
  return Session[name] or require("pi.verbs")[name]
end

local EMPTY_QUEUE = { steering = {}, followUp = {}, items = {} }
-- Settings that a session file does not keep: they are given again to a daemon that was started again.
local KEPT = { "permissionMode", "steeringMode", "followUpMode", "autoCompaction", "autoRetry", "limits" }
local SNAPSHOT_TRIES = 20
local next_key = 0

local function daemon()
  return require("pi.daemon")
end

---@param state pi_rpc.SessionState
---@param params table
---@param readonly? boolean
---@param fresh? boolean it has just begun: what was told before its state came is asked for
---@return pi.Session
function Session.new(state, params, readonly, fresh)
  next_key = next_key + 1
  local self = setmetatable({
    id = state.sessionId,
    key = next_key,
    state = state,
    queue = state.queue or vim.deepcopy(EMPTY_QUEUE),
    readonly = readonly or false,
    lost = false,
    params = params,
    seq = state.lastSeq,
    drawn = 0,
    returning = false,
    waiting = {},
    subscribers = {},
    next_subscriber = 1,
  }, Session)
  daemon().attach(self)
  if fresh and state.lastSeq > 0 then
    self.seq = 0
    self:_catch_up()
  end
  return self
end

---@return boolean
function Session:running()
  return not self.lost and self.state.phase ~= "idle"
end

---@param fn fun(event: table)
---@return fun() unsubscribe
function Session:subscribe(fn)
  local number = self.next_subscriber
  self.next_subscriber = number + 1
  self.subscribers[number] = fn
  return function()
    self.subscribers[number] = nil
  end
end

---Tell everybody; one that fails is told of, and does not keep it from the others.
---@param event table
function Session:emit(event)
  for _, fn in vim.spairs(self.subscribers) do
    local ok, err = xpcall(fn, debug.traceback, event)
    if not ok then
      vim.notify("pi: " .. tostring(err), vim.log.levels.ERROR)
    end
  end
  require("pi.events").tell(self, event)
end

-- Events ------------------------------------------------------------------------------------------

---@private
function Session:_apply(event)
  if event.type == "session_changed" then
    for name, value in pairs(event) do
      if name ~= "type" and name ~= "removed" then
        self.state[name] = value
      end
    end
    for _, name in ipairs(event.removed or {}) do
      self.state[name] = nil
    end
    vim.cmd.redrawstatus({ bang = true })
  elseif event.type == "queue_update" then
    self.queue = { steering = event.steering, followUp = event.followUp, items = event.items }
    self.state.queue = self.queue
  elseif event.type == "diagnostic" and not next(self.subscribers) then
    -- Nobody draws it.
    local level = event.severity == "error" and vim.log.levels.ERROR or vim.log.levels.WARN
    require("pi.complaints").brief(event.message, level)
  elseif event.type == "files_changed" then
    require("pi.documents").changed(event.changes)
  end
  self:emit(event)
end

---From the daemon, in the order in which it was said.
---@param seq integer
---@param event table
function Session:on_event(seq, event)
  if self.closed then
    return
  elseif self.held then
    table.insert(self.held, { seq = seq, event = event })
  elseif event.type == "session_changed" and event.epoch and event.epoch ~= self.state.epoch then
    -- It was loaded anew, and counts anew.
    self.seq = seq
    self:_apply(event)
  elseif seq == self.seq + 1 then
    self.seq = seq
    self:_apply(event)
  elseif seq > self.seq then
    self.held = { { seq = seq, event = event } }
    self:_catch_up()
  end
end

---Deliver what was held back, as far as it is new.
---@private
function Session:_release()
  local held = self.held or {}
  self.held = nil
  for _, each in ipairs(held) do
    if self.held or each.seq > self.seq or each.event.epoch then
      self:on_event(each.seq, each.event)
    end
  end
end

---Ask for the events that were missed; those that come meanwhile are held.
---@private
function Session:_catch_up()
  self.held = self.held or {}
  local drawn = self.drawn
  self:request("session/events", { sinceSeq = self.seq, epoch = self.state.epoch }, function(err, result)
    if self.closed or drawn ~= self.drawn then
      -- Everybody has drawn anew meanwhile: what was missed is in that.
      return
    elseif err or not result.complete then
      return self:_snapshot(1)
    end
    for _, each in ipairs(result.events) do
      self.seq = each.seq
      self:_apply(each.event)
    end
    if result.hasMore then
      return self:_catch_up()
    end
    self.seq = math.max(self.seq, result.lastSeq)
    self:_release()
  end)
end

---Everybody draws anew. While the answers are under way, events are held.
---@param callback? fun(err: pi.Error?)
function Session:refresh(callback)
  self.held = self.held or {}
  self:_snapshot(1, callback)
end

---@private
function Session:_snapshot(try, callback)
  local messages
  local function failed(err)
    -- What was held cannot be put in its place: it is left out, and what comes next is taken as it comes.
    for _, each in ipairs(self.held or {}) do
      self.seq = math.max(self.seq, each.seq)
    end
    self.held = nil
    if callback then
      callback(err)
    elseif err.data.kind ~= "daemonLost" and not self.closed then
      self:complain(err)
    end
  end
  local limit = self.message_limit or require("pi.config").get().chat.messages
  self:request("session/messages", { limit = limit, maxBytesPerMessage = 262144 }, function(err, result)
    messages = result
    if err then
      return failed(err)
    end
    self:request("session/state", { include = { "live" } }, function(problem, state)
      if problem then
        return failed(problem)
      end
      if state.lastSeq ~= messages.lastSeq and try < SNAPSHOT_TRIES then
        -- Something was said between the two answers: together they show no one moment.
        return self:_snapshot(try + 1, callback)
      end
      local live = state.live
      state.live = nil
      self.state, self.queue, self.seq = state, state.queue, messages.lastSeq
      self.drawn = self.drawn + 1
      self:emit({
        type = "client_snapshot",
        messages = messages.messages,
        entryIds = messages.entryIds,
        hasMore = messages.hasMore,
        calls = messages.calls,
        live = live,
      })
      self:_release()
      if callback then
        callback(nil)
      end
    end)
  end)
end

---The daemon has died.
---@param message string
function Session:on_lost(message)
  local queue = self.queue
  self.lost, self.held = true, nil
  self.state.phase, self.state.isStreaming = "idle", false
  self.queue = vim.deepcopy(EMPTY_QUEUE)
  self:emit({ type = "client_lost", message = message, queue = queue })
end

---What waited for the session is done, or told that it is gone for good.
---@private
---@param err pi.Error?
function Session:_returned(err)
  local waiting = self.waiting
  self.returning, self.waiting = false, {}
  if err and #waiting == 0 then
    self:complain(err)
  end
  for _, fn in ipairs(waiting) do
    fn(err)
  end
end

---Call a function once the session is there again, which was lost; a daemon is started for it if none runs.
---@param fn fun(err: pi.Error?)
function Session:when_back(fn)
  table.insert(self.waiting, fn)
  daemon().start(function(err)
    if err then
      self:_returned(err)
    elseif not self.returning then
      self:on_back()
    end
  end)
end

---The daemon is back: open the session there again.
function Session:on_back()
  local before = self.state
  local sessions = require("pi.sessions")
  self.returning = true
  sessions.reopen(self.id, before, self.params, function(err, state, readonly)
    if err then
      return self:_returned(err)
    end
    daemon().detach(self.id)
    self.id, self.state, self.queue = state.sessionId, state, state.queue
    self.seq, self.lost, self.readonly, self.held = state.lastSeq, false, readonly or false, nil
    daemon().attach(self)
    local wanted = {}
    for _, name in ipairs(KEPT) do
      if before[name] ~= nil and not vim.deep_equal(before[name], state[name]) then
        wanted[name] = before[name]
      end
    end
    if next(wanted) then
      self:configure(wanted)
    end
    self:refresh(function()
      if state.interrupted then
        require("pi.complaints").brief("the run was interrupted; `:Pi continue` goes on with it")
      end
    end)
    self:_returned(nil)
  end)
end

---Forget it here; the file stays, and a run that goes on ends.
---@param callback? fun(err: pi.Error?)
function Session:close(callback)
  local function gone()
    self.closed = true
    daemon().detach(self.id)
    require("pi.sessions").forget(self)
    self:emit({ type = "client_closed" })
    self.subscribers = {}
    if callback then
      callback(nil)
    end
  end
  if self.lost or not daemon().running() then
    return gone()
  end
  self:request("session/close", nil, function(err)
    if err and err.data.kind ~= "sessionNotFound" and err.data.kind ~= "daemonLost" then
      return callback and callback(err) or self:complain(err)
    end
    gone()
  end)
end

return Session
