"""Our agent as an ACP server."""
