"""Fakes of agents that are servers: ``codex app-server`` and ``opencode serve``.

``python -m quarterdeck.testing.daemons --as codex app-server`` speaks JSON-RPC over standard input
and output, ``--as opencode serve`` listens on a port of the loopback interface; both say what the
real ones say. A prompt is a list of commands, see ``docs/fake-agent.md``. Sessions outlive the
process in the directory that the variable ``FAKE_STATE`` names.
"""

import asyncio
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Play an agent with these arguments, by default those of this process."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    name, words = (argv[1], argv[2:]) if argv[:1] == ["--as"] and len(argv) > 1 else ("", argv)
    if "--version" in words:
        sys.stdout.write(f"{name} 0.0.0-fake\n")
        return
    if name == "codex" and words[:1] == ["app-server"]:
        from .codex import serve_codex

        asyncio.run(serve_codex(words[1:]))
    elif name == "opencode" and words[:1] == ["serve"]:
        from .opencode import serve_opencode

        asyncio.run(serve_opencode(words[1:]))
    else:
        sys.exit("say what to play: --as codex app-server, or --as opencode serve")
