---Which sessions this Neovim has open, and which of them belongs to this place.
local M = {}

---@type pi.Session[]
local open = {}
---@type pi.Session? the one of all tabs, with `scope = "editor"`
local shared

local function tab_scope()
  return require("pi.config").get().scope == "tab"
end

---@return pi.Session[]
function M.all()
  return vim.list_extend({}, open)
end

---@param id string?
---@return pi.Session?
function M.get(id)
  for _, session in ipairs(open) do
    if session.id == id then
      return session
    end
  end
end

---@param key integer?
---@return pi.Session?
function M.by_key(key)
  for _, session in ipairs(open) do
    if session.key == key then
      return session
    end
  end
end

---The session of this place: that of the chat under the cursor, else of the tab or of all tabs.
---@return pi.Session?
function M.current()
  local here = M.by_key(vim.b.pi_session) or M.by_key(vim.t.pi_session)
  return here or not tab_scope() and shared or nil
end

---Make it the session of this place.
---@param session pi.Session
function M.choose(session)
  if tab_scope() then
    vim.t.pi_session = session.key
  else
    shared = session
  end
end

---@param session pi.Session
function M.forget(session)
  open = vim.tbl_filter(function(each)
    return each ~= session
  end, open)
  if shared == session then
    shared = nil
  end
end

---@param session pi.Session
local function adopt(session)
  open[#open + 1] = session
  M.choose(session)
  require("pi.trust").look(session)
  return session
end

---Begin a session in the directory of this place, which it becomes the session of.
---@param params table? of `session/new`
---@param callback fun(err: pi.Error?, session: pi.Session?)
function M.new(params, callback)
  local wanted = vim.tbl_extend("force", require("pi.config").get().session, { cwd = vim.fn.getcwd() }, params or {})
  require("pi.daemon").request("session/new", wanted, function(err, state)
    if err then
      return callback(err)
    end
    callback(nil, adopt(require("pi.session").new(state, wanted, false, true)))
  end)
end

---@param params { sessionId?: string, path?: string, readOnly?: boolean }
---@param callback fun(err: pi.Error?, state: pi_rpc.SessionState?, readonly: boolean?)
local function ask_to_open(params, callback)
  require("pi.daemon").request("session/open", params, function(err, state)
    if err and err.data.kind == "sessionLocked" and not params.readOnly then
      local pid = err.data.pid and (" (process %d)"):format(err.data.pid) or ""
      vim.notify(
        ("pi: another process writes this session%s: it is opened to look only; `:Pi fork` goes on in a copy"):format(
          pid
        ),
        vim.log.levels.WARN
      )
      return ask_to_open(vim.tbl_extend("force", params, { readOnly = true }), callback)
    end
    callback(err, state, params.readOnly)
  end)
end

---Open a stored session, only to look where another process writes it.
---@param params { sessionId?: string, path?: string, readOnly?: boolean }
---@param callback fun(err: pi.Error?, session: pi.Session?)
function M.open(params, callback)
  local known = M.get(params.sessionId)
  if known then
    M.choose(known)
    return callback(nil, known)
  end
  ask_to_open(params, function(err, state, readonly)
    if err then
      return callback(err)
    end
    known = M.get(state.sessionId)
    if known then
      M.choose(known)
      return callback(nil, known)
    end
    callback(nil, adopt(require("pi.session").new(state, { cwd = state.cwd }, readonly)))
  end)
end

---Open a session again in a daemon that was started again. One that nothing was ever said in has no file: another
---begins in its place.
---@param id string
---@param before pi_rpc.SessionState
---@param params table
---@param callback fun(err: pi.Error?, state: pi_rpc.SessionState?, readonly: boolean?)
function M.reopen(id, before, params, callback)
  ask_to_open({ sessionId = id }, function(err, state, readonly)
    if err and err.data.kind == "sessionNotFound" then
      local wanted = vim.tbl_extend("force", params, { cwd = before.cwd })
      return require("pi.daemon").request("session/new", wanted, callback)
    end
    callback(err, state, readonly)
  end)
end

---Call a function with a session: the one given, else that of this place, begun if there is none.
---@param session pi.Session?
---@param fn fun(session: pi.Session)
---@param failed? fun() called, after the person was told, when there is none
function M.with(session, fn, failed)
  session = session or M.current()
  if session then
    return fn(session)
  end
  M.new(nil, function(err, begun)
    if err then
      require("pi.complaints").tell(err)
      return failed and failed()
    end
    fn(begun --[[@as pi.Session]])
  end)
end

return M
