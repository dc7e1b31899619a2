std = "luajit"
read_globals = { "vim", "arg" }
globals = { "vim.g", "vim.b", "vim.w", "vim.t", "vim.v", "vim.o", "vim.bo", "vim.wo", "vim.opt", "vim.env" }
max_line_length = 120
exclude_files = { "lua/pi/generated" }
files["test"] = { globals = { "test", "vim" } }
