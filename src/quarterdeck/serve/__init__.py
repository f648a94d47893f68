"""Our own agent as an Agent Client Protocol server, for editors and other clients.

``server`` answers what needs no session and imports the rest late; ``sessions`` has the
sessions of one connection; ``session`` is one of them, with its prompts and updates
(``updates`` translates the log); ``permissions`` puts requests to the client;
``delegated_system`` is the client's files and terminals.
"""
