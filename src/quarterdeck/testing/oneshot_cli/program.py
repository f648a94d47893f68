"""The fakes as one program: ``--as NAME`` says which agent it plays."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from ..session_memory import SessionMemory
from .commands import FakeOneshotFailedError, run_line
from .flags import parse
from .outputs import OUTPUTS, OneshotOutput

__all__ = ["main"]

_STUBBORN = {
    "gemini": (signal.SIGINT, signal.SIGTERM),
    "opencode": (signal.SIGINT,),
}
"""Signals that the real ones ignore while they work."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Play an agent with these arguments, by default those of this process."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    name = Path(sys.argv[0]).name.removesuffix("-agent")
    if argv[:1] == ["--as"] and len(argv) > 1:
        name, argv = argv[1], argv[2:]
    if name not in OUTPUTS:
        sys.exit(f"say which agent to play: --as {'|'.join(OUTPUTS)}")
    if "--version" in argv:
        sys.stdout.write(f"{name} 0.0.0-fake\n")
        return
    sys.exit(_run(name, OUTPUTS[name](parse(name, argv))))


def _leave(number: int, frame: object) -> None:
    """Leave at once, without an answer, as codex does."""
    os._exit(1)


def _run(name: str, output: OneshotOutput) -> int:
    session, fork = output.resumed()
    memory = output.memory = SessionMemory(name, session, fork=fork)
    if not memory.is_known:
        sys.stderr.write(f"Error: no session found for id {session}\n")
        return 1
    prompt = output.prompt()
    if not prompt.strip():
        sys.stderr.write("No prompt provided\n")
        return 1
    for number in _STUBBORN.get(name, ()):
        signal.signal(number, signal.SIG_IGN)
    if name == "codex":
        signal.signal(signal.SIGINT, _leave)
    memory.keep(prompt)
    output.begin(prompt)
    try:
        for line in prompt.split("\n"):
            run_line(output, line)
    except FakeOneshotFailedError as error:
        return output.fail(str(error))
    output.finish()
    return 0
