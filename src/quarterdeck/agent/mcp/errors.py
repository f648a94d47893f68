"""What can be wrong with an MCP server."""

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["Hopeless", "McpError", "ProbeRefused"]


class McpError(QuarterdeckError):
    """A server cannot be used; the text names it and says why."""


class Hopeless(McpError):
    """A server cannot be used, and trying again would not help."""


class ProbeRefused(McpError):
    """A server left when it was asked what it speaks; it may know the older greeting alone."""
