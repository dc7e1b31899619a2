---`:Pi` and its subcommands, which are also `<Plug>(pi-NAME)`. The help file is made from this table.
local M = {}

local START_MS = 5000

---@class pi.Subcommand
---@field doc string
---@field args? string what may follow, for the help file
---@field run fun(session: pi.Session, text: string, call: table)
---@field bare? boolean it needs no session: `run` is called with nil, and none is begun
---@field present? boolean it is about what a session has: none is begun for it
---@field complete? string[]

local function chat()
  return require("pi.chat")
end

---@param session pi.Session
---@param ... table?
local function attach(session, ...)
  chat().attach(session, ...)
  chat().focus(session)
end

---@type table<string, pi.Subcommand>
M.all = {
  toggle = {
    doc = "Open the chat, or close it where it is open. `:Pi` alone does this.",
    run = function(session)
      chat().toggle(session)
    end,
  },
  open = {
    doc = "Open the chat, in the layout given.",
    args = "[layout]",
    complete = { "right", "left", "below", "tab", "float" },
    run = function(session, text)
      chat().open(session, { layout = text ~= "" and text or nil })
    end,
  },
  close = {
    doc = "Close the chat's windows. The session goes on.",
    bare = true,
    run = function()
      if package.loaded["pi.chat"] then
        chat().close()
      end
    end,
  },
  focus = {
    doc = "Go to the prompt of the chat.",
    run = function(session)
      chat().focus(session)
    end,
  },
  prompt = {
    doc = "Say {text}; while a run goes on it is taken in before the next request. With a range, the lines go with it."
      .. " Without {text} it goes to the prompt.",
    args = "{text}",
    run = function(session, text, call)
      local attachments
      if call.range and call.range > 0 then
        attachments = { require("pi.attachments").lines(0, call.line1, call.line2) }
      end
      if text == "" then
        return attach(session, unpack(attachments or {}))
      end
      chat().open(session)
      session:prompt(text, { attachments = attachments, streamingBehavior = "steer", wait = "accepted" })
    end,
  },
  send = {
    doc = "Send what is written in the prompt.",
    run = function(session)
      chat().send(session)
    end,
  },
  stop = {
    doc = "Stop what goes on. What waited comes back into the prompt.",
    present = true,
    run = function(session)
      chat().stop(session)
    end,
  },
  continue = {
    doc = "Go on with a run that was interrupted, or failed, or with what waits.",
    present = true,
    run = function(session)
      session:continue()
    end,
  },
  attach = {
    doc = "Attach lines of this buffer (the range, or the last selection) to the next message.",
    args = "",
    run = function(session, _, call)
      local attachments = require("pi.attachments")
      -- Typed with a range, it means lines; from Visual mode, exactly what is selected.
      local by_range = call.range and call.range > 0 and not call.visual
      local attachment = by_range and attachments.lines(0, call.line1, call.line2) or attachments.visual()
      if not attachment then
        return vim.notify("pi: nothing is selected here")
      end
      attach(session, attachment)
    end,
  },
  diagnostics = {
    doc = "Attach the diagnostics of this buffer, or those within the range, to the next message.",
    run = function(session, _, call)
      local first, last
      if call.range and call.range > 0 then
        first, last = call.line1, call.line2
      end
      local attachment = require("pi.attachments").diagnostics(vim.api.nvim_get_current_buf(), first, last)
      if not attachment then
        return vim.notify("pi: there are no diagnostics here")
      end
      attach(session, attachment)
    end,
  },
  detach = {
    doc = "Take something off again that goes with the next message.",
    run = function(session)
      chat().detach(session)
    end,
  },
  answer = {
    doc = "Answer the question of the agent that has waited longest.",
    bare = true,
    run = function()
      require("pi.attention").show()
    end,
  },
  new = {
    doc = "Begin another session, with a name if one is given.",
    args = "[name]",
    bare = true,
    run = function(_, text)
      require("pi.sessions").new({ name = text ~= "" and text or nil }, function(err, session)
        if err then
          return require("pi.complaints").tell(err)
        end
        chat().open(session --[[@as pi.Session]])
      end)
    end,
  },
  sessions = {
    doc = "Choose a session of this directory, or of all, and open it.",
    bare = true,
    run = function()
      require("pi.pickers").sessions()
    end,
  },
  resume = {
    doc = "Open the session of this directory that was used last.",
    bare = true,
    run = function()
      require("pi.pickers").resume()
    end,
  },
  tree = {
    doc = "Choose an entry of the session: go on from there (with a summary of what is left), fork it, label it.",
    present = true,
    run = function(session)
      require("pi.tree").choose(session)
    end,
  },
  fork = {
    doc = "Go on in a copy of the session.",
    present = true,
    run = function(session)
      require("pi.tree").fork(session, {})
    end,
  },
  queue = {
    doc = "See what waits for the run that goes on, and take it back.",
    present = true,
    run = function(session)
      require("pi.pickers").queue(session)
    end,
  },
  model = {
    doc = "Choose the model.",
    args = "[provider/id]",
    run = function(session, text)
      require("pi.pickers").model(session, text ~= "" and text or nil)
    end,
  },
  thinking = {
    doc = "Choose how much the model thinks.",
    args = "[level]",
    complete = { "off", "minimal", "low", "medium", "high", "xhigh", "max" },
    run = function(session, text)
      require("pi.pickers").thinking(session, text ~= "" and text or nil)
    end,
  },
  mode = {
    doc = "Choose what it may do unasked.",
    args = "[mode]",
    complete = { "ask", "edits", "full", "readonly" },
    run = function(session, text)
      require("pi.pickers").mode(session, text ~= "" and text or nil)
    end,
  },
  rules = {
    doc = "See the rules that hold here, and forget remembered answers.",
    run = function(session)
      require("pi.permissions").list(session)
    end,
  },
  compact = {
    doc = "Have the conversation summarised, with instructions if given, to make room.",
    args = "[instructions]",
    present = true,
    run = function(session, text)
      session:compact(text ~= "" and text or nil, function(err, result)
        if err then
          return session:complain(err)
        end
        vim.notify(
          result.cancelled and "pi: everything is as it was"
            or ("pi: %d tokens became %d"):format(result.tokensBefore or 0, result.estimatedTokensAfter or 0)
        )
      end)
    end,
  },
  checkpoints = {
    doc = "Choose a run that changed files: see its diff, put files back.",
    present = true,
    run = function(session)
      require("pi.checkpoints").choose(session)
    end,
  },
  bash = {
    doc = "Run a command of your own; the model reads what came of it, unless `!` follows `:Pi`.",
    args = "{command}",
    run = function(session, text, call)
      if text ~= "" then
        chat().open(session)
        chat().run(session, text, call.bang)
      end
    end,
  },
  commands = {
    doc = "Choose a template, a skill or a command of an extension.",
    run = function(session)
      require("pi.pickers").commands(session)
    end,
  },
  name = {
    doc = "Give the session a name.",
    args = "{name}",
    run = function(session, text)
      if text ~= "" then
        return session:configure({ name = text })
      end
      vim.ui.input({ prompt = "Name: ", default = session.state.name }, function(name)
        if name then
          session:configure({ name = name })
        end
      end)
    end,
  },
  stats = {
    doc = "Show what the session used.",
    present = true,
    run = function(session)
      require("pi.reports").stats(session)
    end,
  },
  export = {
    doc = "Write the conversation to a file, whose end (.html, .md, .jsonl) says how; `!` replaces one that exists.",
    args = "{file}",
    present = true,
    run = function(session, text, call)
      require("pi.reports").export(session, text, call.bang)
    end,
  },
  forget = {
    doc = "Close the session here; its file stays.",
    present = true,
    run = function(session)
      chat().close()
      session:close()
    end,
  },
  trust = {
    doc = "Decide whether what this project brings along (settings, skills, extensions) counts.",
    run = function(session)
      require("pi.trust").decide(session)
    end,
  },
  auth = {
    doc = "See which providers have a key, set one, remove one.",
    args = "[provider]",
    run = function(session, text)
      require("pi.auth").choose(session, text)
    end,
  },
  restart = {
    doc = "End the daemon and start it again. Sessions go on.",
    bare = true,
    run = function()
      require("pi.daemon").restart(function(err)
        if err then
          require("pi.complaints").tell(err)
        end
      end)
    end,
  },
  log = {
    doc = "Open the daemon's log.",
    bare = true,
    run = function()
      vim.cmd.tabedit(vim.fn.fnameescape(require("pi.daemon").log_file()))
    end,
  },
}

---@return string[]
function M.names()
  local names = vim.tbl_keys(M.all)
  table.sort(names)
  return names
end

---@param name string
---@param text string
---@param call table
local function run(name, text, call)
  local subcommand = M.all[name]
  if not subcommand then
    return vim.notify(
      ("pi: there is no :Pi %s; there are %s"):format(name, table.concat(M.names(), ", ")),
      vim.log.levels.ERROR
    )
  end
  if subcommand.bare then
    return subcommand.run(nil, text, call)
  end
  if subcommand.present and not require("pi.sessions").current() then
    return vim.notify("pi: there is no session here yet")
  end
  local over = false
  require("pi.sessions").with(nil, function(session)
    over = true
    subcommand.run(session, text, call)
  end, function()
    over = true
  end)
  -- What is typed while a daemon starts is meant for what the command shows, and waits with us.
  vim.wait(START_MS, function()
    return over
  end, 5)
end

---Carry out `:Pi …`.
---@param call table as `nvim_create_user_command` gives it
function M.run(call)
  local name, text = vim.trim(call.args):match("^(%S*)%s*(.*)$")
  run(name ~= "" and name or (call.range > 0 and "attach" or "toggle"), text, call)
end

---Carry out `<Plug>(pi-NAME)`; in Visual mode with the selected lines.
---@param name string
function M.plug(name)
  local call = { range = 0, bang = false }
  local mode = vim.fn.mode()
  if mode == "v" or mode == "V" or mode == "\22" then
    local from, to = vim.fn.line("v"), vim.fn.line(".")
    call.visual, call.range, call.line1, call.line2 = true, 2, math.min(from, to), math.max(from, to)
    vim.api.nvim_feedkeys(vim.keycode("<Esc>"), "nx", false)
  end
  run(name, "", call)
end

---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  local words = vim.split(line:gsub("^.-Pi!?%s+", "", 1), "%s+")
  local offered = #words <= 1 and M.names() or (M.all[words[1]] or {}).complete or {}
  return vim.tbl_filter(function(each)
    return vim.startswith(each, lead)
  end, offered)
end

return M
