"""Our own agent as an Agent Client Protocol server, for editors and other clients.

``server`` answers what needs no session and imports the rest late; ``desk`` has the sessions of
one connection; ``hosted`` is one of them, with its ``pump`` (log to updates, translated by
``updates``) and its ``asking`` (permissions and questions to the client). ``delegate`` lets the
tools work on the client's files and terminals.
"""
