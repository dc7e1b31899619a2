"""JSON-RPC 2.0 framing, dispatch and cancellation. Knows nothing of agents."""
