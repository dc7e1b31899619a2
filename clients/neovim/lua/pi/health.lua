---`:checkhealth pi`: the program, its version, the handshake, models, settings, and what Neovim offers.
local M = {}

local DEADLINE_MS = 10000

---@param method string
---@param params? table
---@return any result, pi.Error? err
local function ask(method, params)
  local given
  require("pi.daemon").request(method, params, function(err, result)
    given = { err = err, result = result }
  end)
  vim.wait(DEADLINE_MS, function()
    return given ~= nil
  end, 10)
  if not given then
    return nil, require("pi.rpc").error("timeout", "pi-rpc did not answer " .. method .. " in time")
  end
  return given.result, given.err
end

local function check_neovim()
  if vim.fn.has("nvim-0.11") == 1 then
    vim.health.ok("Neovim " .. vim.fn.execute("version"):match("NVIM v?(%S+)"))
  else
    vim.health.error("Neovim 0.11 or later is needed; this is " .. tostring(vim.version()))
  end
  if pcall(vim.treesitter.language.inspect, "markdown") then
    vim.health.ok("treesitter has Markdown")
  else
    vim.health.info("treesitter has no Markdown: chats are highlighted by syntax files")
  end
end

local function check_options()
  local faults = require("pi.config").wrong()
  if #faults == 0 then
    vim.health.ok("options")
  end
  for _, fault in ipairs(faults) do
    vim.health.error(fault)
  end
end

---@return boolean
local function check_program()
  local daemon = require("pi.daemon")
  local obstacle = daemon.obstacle()
  if obstacle then
    vim.health.error(obstacle)
    return false
  end
  vim.health.ok(("the daemon is %s"):format(vim.fn.exepath(assert(daemon.program()))))
  -- The handshake; a daemon that is too old is told of here and ended.
  local _, err = ask("ping")
  local greeting = daemon.greeting()
  if err or not greeting then
    vim.health.error(
      "the daemon does not answer: " .. (err and err.message or "no handshake"),
      { "see " .. daemon.log_file() .. " and " .. vim.lsp.log.get_filename() }
    )
    return false
  end
  vim.health.ok(("pi-rpc %s, protocol %d"):format(greeting.serverInfo.version, greeting.protocolVersion))
  return true
end

local function check_models()
  local result, err = ask("model/list", { authenticated = true })
  if err then
    return vim.health.error("models: " .. err.message)
  end
  if #result.models == 0 then
    return vim.health.warn(
      "no provider has a key",
      { "`:Pi auth` sets one", "or set its variable, ANTHROPIC_API_KEY for one" }
    )
  end
  local providers = {}
  for _, model in ipairs(result.models) do
    providers[model.provider] = true
  end
  vim.health.ok(("%d models of %s"):format(#result.models, table.concat(vim.tbl_keys(providers), ", ")))
end

local function check_sessions()
  local sessions = package.loaded["pi.sessions"] and require("pi.sessions").all() or {}
  vim.health.info(
    ("%d sessions are open here; the daemon's log is %s"):format(#sessions, require("pi.daemon").log_file())
  )
end

function M.check()
  vim.health.start("pi")
  check_neovim()
  check_options()
  if check_program() then
    check_models()
    check_sessions()
  end
end

return M
