-- What Neovim reads at start: names only. Nothing of the plugin is loaded before one of them is used.
if vim.g.loaded_pi then
  return
end
vim.g.loaded_pi = true

vim.api.nvim_create_user_command("Pi", function(call)
  require("pi.commands").run(call)
end, {
  nargs = "*",
  range = true,
  bang = true,
  desc = "Talk to the coding agent pi",
  complete = function(...)
    return require("pi.commands").complete(...)
  end,
})

-- `<Plug>(pi-NAME)` for the subcommands that need no text.
local NAMES = "toggle open close focus prompt send stop continue attach detach diagnostics answer new sessions resume "
  .. "tree fork queue model thinking mode rules compact checkpoints commands name stats forget trust auth restart log"
for name in NAMES:gmatch("%S+") do
  local keys, command = "<Plug>(pi-" .. name .. ")", "<Cmd>lua require('pi.commands').plug('" .. name .. "')<CR>"
  local options = { noremap = true, desc = "pi: " .. name }
  vim.api.nvim_set_keymap("n", keys, command, options)
  vim.api.nvim_set_keymap("x", keys, command, options)
end
