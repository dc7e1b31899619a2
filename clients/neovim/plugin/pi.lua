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

-- `<Plug>(pi-NAME)` for every subcommand, made on demand: the names are looked up when one is typed or mapped.
local function plug(name)
  vim.keymap.set({ "n", "x" }, "<Plug>(pi-" .. name .. ")", function()
    require("pi.commands").plug(name)
  end, { desc = "pi: " .. name })
end
local NAMES = "toggle open close focus prompt send stop continue attach diagnostics answer new sessions resume "
  .. "tree fork queue model thinking mode rules compact checkpoints commands name stats forget trust auth restart log"
for name in NAMES:gmatch("%S+") do
  plug(name)
end
