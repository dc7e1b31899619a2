-- What a person does in Neovim with its own client and no plugin.
-- Says as JSON what the buffer holds in the end. The file, then the command of the server.
local file = table.remove(arg, 1)
local seen, asked, progress = {}, {}, {}

vim.o.swapfile = false
vim.cmd.edit(file)
vim.bo.filetype = "python"
local buffer = vim.api.nvim_get_current_buf()
vim.api.nvim_create_autocmd("LspProgress", {
    callback = function(event)
        table.insert(progress, event.data.params.value.kind)
    end,
})

local id = assert(vim.lsp.start({ name = "pi", cmd = arg, root_dir = vim.fs.dirname(file) }))
local client = assert(vim.lsp.get_client_by_id(id))
local function wait(done)
    assert(vim.wait(25000, done, 20), "it took too long")
end
wait(function()
    return client.initialized and vim.lsp.buf_is_attached(buffer, id)
end)

vim.api.nvim_buf_set_lines(buffer, 0, 0, false, { "# typed and not saved" })
vim.api.nvim_win_set_cursor(0, { 3, 4 })

local function text()
    return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
end

local wanted = "Fix with pi"
vim.ui.select = function(items, options, choose)
    local titles = vim.tbl_map(function(item)
        return item.title or item.action and item.action.title
    end, items)
    if not (options.kind == "codeaction") then
        asked = titles
        choose(items[1], 1)
        return
    end
    seen = titles
    for index, title in ipairs(titles) do
        if title == wanted then
            choose(items[index], index)
        end
    end
end

vim.lsp.buf.code_action()
wait(function()
    return progress[#progress] == "end"
end)
local result = { actions = seen, asked = asked, text = text(), modified = vim.bo[buffer].modified }
result.progress = { progress[1], progress[#progress] }

progress = {}
wanted = "Explain with pi"
vim.lsp.buf.code_action()
wait(function()
    return vim.api.nvim_buf_get_name(0):find("answer%-1%.md$") ~= nil
end)
result.answer = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")

client:stop()
wait(function()
    return client:is_stopped()
end)
io.stdout:write(vim.json.encode(result))
vim.cmd("qall!")
