"""Fakes of agents that are servers: ``codex app-server`` and ``opencode serve``.

``python -m quarterdeck.testing.daemons --as codex app-server`` speaks JSON-RPC over standard input
and output, ``--as opencode serve`` listens on a port of the loopback interface; both say what the
real ones say. A prompt is a list of commands, see ``docs/fake-agent.md``. Sessions outlive the
process in the directory that the variable ``FAKE_STATE`` names.
"""
