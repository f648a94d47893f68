"""Agents that are servers: ``codex app-server`` over JSON-RPC, ``opencode serve`` over HTTP.

Each may be started for a session, or run already and be shared (``attached``, ``websocket``).

``codex`` and ``opencode`` are the links; ``codex_*`` and ``opencode_*`` are their parts: what a
server says becomes events in a reader that is pure, what it asks is answered at a desk, what an
opening asks for is worked out before anything starts.
"""
