#!/bin/sh
# Emacs with eglot, from Debian's packages. Usage: emacs-install.sh. Installs as root, where they are missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
set -- /usr/share/emacs/site-lisp/elpa/eglot-*
if command -v emacs >/dev/null && [ -d "$1" ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "The tests of the language server need Emacs: install it (Debian: apt-get install emacs-nox elpa-eglot), then try again." >&2
    exit 1
fi
sh "$here/retry.sh" apt-get update -qq
DEBIAN_FRONTEND=noninteractive sh "$here/retry.sh" apt-get install -y -qq --no-install-recommends emacs-nox elpa-eglot >/dev/null
