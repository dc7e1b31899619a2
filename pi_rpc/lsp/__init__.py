"""The language-server front door: ``pi-rpc --lsp``."""
