"""The native front door: pi-rpc --stdio."""
