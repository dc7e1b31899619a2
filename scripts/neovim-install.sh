#!/bin/sh
# Put two versions of Neovim, a driver for their screens and checkers of Lua into a folder.
# Usage: neovim-install.sh PYTHON FOLDER. Needs npm; luacheck comes from Debian, as root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
again() { sh "$here/retry.sh" "$@"; }
install() { again "$1/bin/python" -m pip install --quiet --disable-pip-version-check "$2" "$3"; }

case "$(uname -sm)" in
    "Linux x86_64") ;;
    *) echo "The Neovims of these tests run on Linux x86-64 alone, and this is $(uname -sm)." >&2; exit 1 ;;
esac

if ! command -v luacheck >/dev/null; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "The tests for Neovim need luacheck: install it (Debian: apt-get install lua-check), then try again." >&2
        exit 1
    fi
    again apt-get update -qq
    DEBIAN_FRONTEND=noninteractive again apt-get install -y -qq --no-install-recommends lua-check >/dev/null
fi

for version in 0.11 0.12; do
    [ -x "$folder/$version/bin/python" ] || "$python" -m venv "$folder/$version"
    install "$folder/$version" --requirement "$here/neovim-$version-requirements.txt"
done
# shellcheck disable=SC2046  # a list of words
again npm install --silent --no-fund --no-audit --prefix "$folder/checks" $(cat "$here/neovim-packages.txt")
