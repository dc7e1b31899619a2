"""The front door for editors that speak the Agent Client Protocol: ``pi-rpc --acp``."""
