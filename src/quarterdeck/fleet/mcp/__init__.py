"""The fleet's tools for agents: over MCP for any make, in process for our own."""
