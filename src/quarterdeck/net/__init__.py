"""Network protocols that several rooms use: HTTP/1.1, server-sent events, WebSocket."""
