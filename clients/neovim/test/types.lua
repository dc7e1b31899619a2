---Checks the type annotations with `emmylua_ls`, a language server without a command line for it: this is its client.
---
---    nvim -l test/types.lua EMMYLUA_LS
local root = vim.fs.dirname(vim.fs.dirname(vim.fn.fnamemodify(arg[0], ":p")))
local DEADLINE_MS = 120000

local function fail(words)
  io.stderr:write("types: ", words, "\n")
  os.exit(1)
end

local loaded = false
local rpc = vim.lsp.rpc.start({ arg[1] }, {
  notification = function(method, params)
    loaded = loaded or (method == "$/progress" and params.value.kind == "end")
  end,
  server_request = function(method, params)
    if method == "workspace/configuration" then
      return vim.tbl_map(function()
        return vim.NIL
      end, params.items)
    end
    return vim.NIL
  end,
  on_exit = function() end,
}, { env = { VIMRUNTIME = vim.env.VIMRUNTIME } })

local function ask(method, params)
  local given
  rpc.request(method, params, function(err, result)
    given = { err = err, result = result }
  end)
  vim.wait(DEADLINE_MS, function()
    return given ~= nil
  end, 10)
  if not given or given.err then
    fail(method .. ": " .. vim.inspect(given and given.err or "no answer in time"))
  end
  return given.result
end

local uri = vim.uri_from_fname(root)
ask("initialize", {
  processId = vim.uv.os_getpid(),
  rootUri = uri,
  workspaceFolders = { { uri = uri, name = "pi" } },
  clientInfo = { name = "Neovim" },
  capabilities = vim.lsp.protocol.make_client_capabilities(),
})
rpc.notify("initialized", vim.empty_dict())
if not vim.wait(DEADLINE_MS, function()
  return loaded
end, 20) then
  fail("the workspace was not loaded in time")
end

local SEVERITIES = { "error", "warning", "information", "hint" }
local count, files = 0, 0
for _, folder in ipairs({ "lua", "plugin" }) do
  for path in vim.fs.dir(root .. "/" .. folder, { depth = 5 }) do
    local full = vim.fs.joinpath(root, folder, path)
    if path:match("%.lua$") and not path:find("generated", 1, true) then
      files = files + 1
      local document = { uri = vim.uri_from_fname(full) }
      local handle = assert(io.open(full))
      rpc.notify("textDocument/didOpen", {
        textDocument = { uri = document.uri, languageId = "lua", version = 1, text = handle:read("*a") },
      })
      handle:close()
      local report = ask("textDocument/diagnostic", { textDocument = document })
      for _, each in ipairs(report.items or {}) do
        if each.severity <= 2 then
          count = count + 1
          local line = each.range.start.line + 1
          io.stdout:write(
            ("%s/%s:%d: %s: %s (%s)\n"):format(
              folder,
              path,
              line,
              SEVERITIES[each.severity],
              each.message,
              each.code or ""
            )
          )
        end
      end
    end
  end
end
rpc.terminate()
io.stdout:write(("types: %d files, %d problems\n"):format(files, count))
os.exit(count > 0 and 1 or 0)
