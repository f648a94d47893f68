"""An MCP server whose tools do what a test wants, and which misbehaves when it is told to.

Plain threads and the standard library, so that it starts fast and shares no code with our client.
"""
