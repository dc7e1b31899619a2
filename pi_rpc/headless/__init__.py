"""The front door without a client: pi-rpc run."""
