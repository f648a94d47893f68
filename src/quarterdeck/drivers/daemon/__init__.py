"""Agents that are servers: ``codex app-server`` over JSON-RPC, ``opencode serve`` over HTTP.

Each may be started for a session, or run already and be shared (``running_server``).

In ``codex`` and ``opencode``, ``link`` uses the parts: ``events`` turns what a server sends into
events and is pure, ``requests`` answers what it asks, ``params`` works out what the options of a
session mean before anything starts.
"""
