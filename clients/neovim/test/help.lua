---Makes `doc/pi.txt` from the tables of options and commands, or says that it has drifted.
---
---    nvim -l test/help.lua [--write]
local root = vim.fs.dirname(vim.fs.dirname(vim.fn.fnamemodify(arg[0], ":p")))
vim.opt.runtimepath:prepend(root)

local WIDTH = 78
local lines = {}

local function add(text)
  lines[#lines + 1] = text or ""
end

---Text broken at spaces, every line set in by `indent`.
local function fill(text, indent)
  local line = ""
  for word in text:gmatch("%S+") do
    if line ~= "" and #line + #word + 1 + indent > WIDTH then
      add((" "):rep(indent) .. line)
      line = ""
    end
    line = line == "" and word or line .. " " .. word
  end
  add((" "):rep(indent) .. line)
end

---A name left, its tag at the right edge.
local function head(text, tag)
  tag = "*" .. tag .. "*"
  local room = WIDTH - #text - #tag
  if room < 2 then
    add((" "):rep(WIDTH - #tag) .. tag)
    return add(text)
  end
  add(text .. (" "):rep(room) .. tag)
end

local function section(title, tag)
  add(("="):rep(WIDTH))
  head(title, tag)
  add()
end

local function block(text)
  for _, line in ipairs(vim.split(vim.trim(text), "\n", { plain = true })) do
    add(line)
  end
  add()
end

local function code(text, language)
  add(">" .. language)
  for _, line in ipairs(vim.split(vim.trim(text), "\n", { plain = true })) do
    add("    " .. line)
  end
  add("<")
end

---@param option pi.Option
local function kind(option)
  if type(option.type) == "table" then
    return table.concat(option.type --[[@as string[] ]], " | ")
  end
  return option.type --[[@as string]]
end

add("*pi.txt*  The coding agent pi in Neovim")
add()
fill("For Neovim 0.11 and later. This page is made from the tables of the plugin.", 0)
add()
section("CONTENTS", "pi")
for _, row in ipairs({
  { "Begin", "pi-begin" },
  { "Commands", "pi-commands" },
  { "The chat and its prompt", "pi-chat" },
  { "Questions and reviews", "pi-questions" },
  { "Open buffers", "pi-buffers" },
  { "Options", "pi-options" },
  { "Lua", "pi-lua" },
  { "Events", "pi-events" },
  { "Statusline", "pi-statusline" },
  { "When something is wrong", "pi-trouble" },
}) do
  add(row[1] .. (" "):rep(40 - #row[1]) .. "|" .. row[2] .. "|")
end
add()

section("BEGIN", "pi-begin")
fill(
  "The plugin draws what the daemon `pi-rpc` says, which it starts when it is first needed. Install that"
    .. " (`pipx install .` in a checkout), look at `:checkhealth pi`, then open the chat with `:Pi` and say what is"
    .. " to be done."
    .. " Without a key, `:Pi auth` sets one, and `:Pi model` chooses a model.",
  0
)
add()
block([[
Nothing is mapped by itself outside of the plugin's own buffers. For example: ]])
code(
  [[
vim.keymap.set({ "n", "x" }, "<leader>pp", "<Plug>(pi-toggle)")
vim.keymap.set("n", "<leader>pa", "<Plug>(pi-answer)")
vim.keymap.set("x", "<leader>ps", "<Plug>(pi-attach)")
]],
  "lua"
)
add()

section("COMMANDS", "pi-commands")
head(":Pi", ":Pi")
fill(
  "Open or close the chat. With a range, attach its lines to the next message. Each of the following is also"
    .. " `<Plug>(pi-NAME)` where it needs no text.",
  4
)
add()
local commands = require("pi.commands")
for _, name in ipairs(commands.names()) do
  local command = commands.all[name]
  local args = command.args and command.args ~= "" and " " .. command.args or ""
  head(":Pi " .. name .. args, ":Pi-" .. name)
  fill(command.doc, 4)
  add()
end

section("THE CHAT AND ITS PROMPT", "pi-chat")
for _, text in ipairs({
  "The prompt is a buffer of any number of lines. `@file` (also `@file:12-20`, a space as `\\ `) attaches a file,"
    .. " `/name` calls a template, a skill or a command of an extension; both are offered while they are"
    .. " typed, and completed by 'omnifunc' (|i_CTRL-X_CTRL-O|), which completion plugins can use. `!command` runs"
    .. " a command of yours whose output the model reads, `!!command` one whose output it does not.",
  "<CR> sends; while a run goes on it steers, and <M-CR> sends for when the run is done. What waits stands below the"
    .. " prompt. <C-c> stops the run and gives back what waits. <C-j> makes a new line in Insert mode. <Up> in the"
    .. " first line and <Down> in the last go through what was said before. All of them are options"
    .. " (`prompt.keys.…`, |pi-options|).",
  "Nothing is attached by itself: `:Pi attach` and `:Pi diagnostics` attach, what is attached stands above the prompt,"
    .. " and <M-x> (`:Pi detach`) takes it off.",
  "In the chat, thinking and long outputs of tools are folds (`za`); lines of more than 8 KB are cut into pieces, which"
    .. " end in `↩`. <CR> or `gf` on the name of a file, or on a tool"
    .. " call, opens the file in the window you came from, on other lines <CR> opens and closes the fold. `]]` and `[[`"
    .. " go from message to message, `i` and the like go to the prompt. The window follows the end while its cursor is"
    .. " in the last line. The buffer is Markdown and has the filetype `pi-chat`, the prompt has `pi-prompt`.",
}) do
  fill(text, 0)
  add()
end
fill("The highlight groups and what they are linked to, as long as a colour scheme says nothing else:", 0)
add()
local links = require("pi.highlights").LINKS
for _, group in ipairs(vim.fn.sort(vim.tbl_keys(links))) do
  add(("    %-16s %s"):format(group, links[group]))
end
add()

section("QUESTIONS AND REVIEWS", "pi-questions")
fill(
  "What the agent may not do unasked, it asks about. A question never opens by itself where you work: it is told"
    .. " of, counted in the statusline, and `:Pi answer` shows the one that has waited longest, then the next. The"
    .. " choice says in words what would be remembered. `Decide later`, or dismissing the choice, leaves it waiting.",
  0
)
add()
fill(
  "`Review the change` opens a tab with the original left and the proposal right, in diff mode. Change the right"
    .. " side as you like: |do| or the key of `review.keys.drop` takes the original of a hunk, |]c| goes to the next."
    .. " `:write` or `review.keys.accept` has the right side written as it is now, and the agent is told what differs"
    .. " from what it proposed; `review.keys.reject` rejects, with a word to the agent. Closing the tab decides"
    .. " nothing.",
  0
)
add()

section("OPEN BUFFERS", "pi-buffers")
fill(
  "Of a file that is open here, the buffer counts: what you have typed is what the agent reads, saved or not. Its"
    .. " edits are made in the buffer, each one step for |u|; marks, folds and the cursor stay. A buffer that was saved"
    .. " is saved again, one that held text of yours is left unsaved. An edit for a text that has changed meanwhile is"
    .. " refused, and the agent reads again. Files that commands change are read again where you have typed nothing.",
  0
)
add()

section("OPTIONS", "pi-options")
fill('Given to `require("pi").setup()`, or as `vim.g.pi` before first use. Both are optional.', 0)
add()
for _, option in ipairs(require("pi.config").options) do
  head(option.name, "pi-option-" .. option.name)
  fill(("(%s, default %s)"):format(kind(option), vim.inspect(option.default, { newline = " ", indent = "" })), 4)
  fill(option.doc, 4)
  add()
end

section("LUA", "pi-lua")
fill('Functions of `require("pi")`. Types are in `lua/pi/generated/protocol.lua`.', 0)
add()
for _, row in ipairs({
  { "setup({options})", "Change options." },
  {
    "prompt({options})",
    'Say something: `message`, and if wanted `session`, `attachments`, `while_running` ("steer",'
      .. ' the default, or "followUp") and `on_done(err, result)`, which is called when the run has settled.',
  },
  {
    "on({event}, {fn})",
    'Call `fn(event, session)` with every event of that type, `"*"` for all. Returns a function' .. " that ends it.",
  },
  {
    "session()",
    "The session of this place, or nil. It has `id`, `state`, `queue`, and the methods `prompt`, `steer`,"
      .. " `follow_up`, `continue`, `abort`, `compact`, `branch`, `fork`, `bash`, `configure`, `close`, `subscribe`.",
  },
  { "sessions()", "All sessions that are open here." },
  { "open({layout})", "Open the chat." },
  { "toggle()", "Open or close the chat." },
  { "stop()", "Stop what goes on." },
  { "statusline()", "See |pi-statusline|." },
}) do
  head(row[1], "pi." .. row[1]:match("^%w+") .. "()")
  fill(row[2], 4)
  add()
end
code(
  [[
require("pi").prompt({
  message = "Write a test for the function under the cursor.",
  attachments = { require("pi.attachments").visual() },
  on_done = function(err, result)
    vim.notify(err and err.message or result.text)
  end,
})
]],
  "lua"
)
add()

section("EVENTS", "pi-events")
fill(
  "Every event of the daemon is also an autocommand: |User| with the pattern `PiEvent` and the name of its type."
    .. " The callback's `data` has `session` (its id) and `event`. Besides the daemon's there are `client_snapshot`,"
    .. " `client_lost`, `client_question`, `client_answered` and `client_closed`.",
  0
)
add()
code(
  [[
vim.api.nvim_create_autocmd("User", {
  pattern = "PiEventAgentSettled",
  callback = function(call)
    vim.notify("pi: " .. call.data.event.stopReason)
  end,
})
]],
  "lua"
)
add()
local events = require("pi.events")
for _, name in ipairs(require("pi.generated.protocol").event_types) do
  add(("    %-28s %s"):format(name, events.pattern(name)))
end
add()

section("STATUSLINE", "pi-statusline")
fill(
  "A text with the model, how full its context is, the cost, what goes on and how many questions wait; empty while"
    .. ' there is no session. The parts by themselves: `require("pi.statusline").parts()`.',
  0
)
add()
code(
  [[
vim.o.statusline = "%f %m%=%{%v:lua.require'pi'.statusline()%}"
-- lualine: sections = { lualine_x = { function() return require("pi").statusline() end } }
]],
  "lua"
)
add()

section("WHEN SOMETHING IS WRONG", "pi-trouble")
fill(
  "`:checkhealth pi` looks at the program, its version, models and options. `:Pi log` opens what the daemon wrote."
    .. " When it dies, what waits for it is told so, it is started again, and sessions go on; `:Pi continue` picks up a"
    .. " run that was cut off. A session that another process writes is opened to look only; `:Pi fork` goes on in a"
    .. " copy.",
  0
)
add()
add("vim:tw=78:ts=8:noet:ft=help:norl:")
add()

local text = table.concat(lines, "\n")
local path = root .. "/doc/pi.txt"
local handle = io.open(path, "rb")
local before = handle and handle:read("*a")
if handle then
  handle:close()
end
if before == text then
  os.exit(0)
elseif arg[1] == "--write" then
  local out = assert(io.open(path, "wb"))
  out:write(text)
  out:close()
  os.exit(0)
end
io.stderr:write("doc/pi.txt is not what the tables say: run `make neovim-docs`\n")
os.exit(1)
