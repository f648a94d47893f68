"""Network protocols that several rooms use: HTTP/1.1 and server-sent events."""
