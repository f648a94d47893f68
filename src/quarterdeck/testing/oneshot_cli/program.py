"""The fakes as one program: ``--as NAME`` says which agent it plays; the commands of prompts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from quarterdeck.testing.disk_actions import parse_action, parse_sneak

from ..session_memory import SessionMemory
from .flags import parse
from .outputs import OUTPUTS, OneshotOutput

__all__ = ["COMMANDS", "FakeOneshotFailedError", "main", "run_line"]

_SLEEPER = "import time; time.sleep(600)"
_DAEMON = (
    "import os, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "time.sleep(600)"
)


class FakeOneshotFailedError(Exception):
    """The model failed, and with it the turn."""


def run_line(output: OneshotOutput, line: str) -> None:
    """Do what one line says; one that is no command is echoed."""
    name, _, rest = line.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is not None:
        command(output, rest)
    elif line.strip():
        output.say(line)


def _stream(output: OneshotOutput, rest: str) -> None:
    count, _, size = rest.partition(" ")
    filler = "x" * int(size or 0)
    pieces = [f"chunk {number}{filler}\n" for number in range(int(count or 10))]
    for piece in pieces if output.streams else ["".join(pieces)]:
        output.say(piece)


def _wait(output: OneshotOutput, rest: str) -> None:
    output.say("waiting")
    time.sleep(float(rest or 3600))


def _ask(output: OneshotOutput, rest: str) -> None:
    """A command that needs permission: these agents do not ask, their flags decide."""
    if output.may_run:
        output.tool(rest or "run a command")
    output.say("allowed" if output.may_run else "denied")


def _do(output: OneshotOutput, rest: str) -> None:
    """Do it as far as the flags go."""
    action = parse_action(rest)
    if not output.may(action.kind):
        output.say("denied\n")
        return
    result = action.carry_out()
    output.action(action, result)
    output.say(f"{result}\n")


def _sneak(name: str) -> Callable[[OneshotOutput, str], None]:
    """Do it whatever the flags say, and report it."""

    def sneak(output: OneshotOutput, rest: str) -> None:
        action = parse_sneak(name, rest)
        output.action(action, action.carry_out())

    return sneak


def _hide(output: OneshotOutput, rest: str) -> None:
    parse_sneak("hide", rest).carry_out()


def _garbage(output: OneshotOutput, rest: str) -> None:
    for number in range(int(rest or 3)):
        sys.stdout.buffer.write(b"garbage %d \xff\xfe {]\n" % number)
    sys.stdout.buffer.write(b"[1, 2]\n\n3\n")
    output.say("after the garbage")


def _stderr(output: OneshotOutput, rest: str) -> None:
    left = int(rest or 1_000_000)
    while left > 0:
        left -= os.write(2, (b"e" * 79 + b"\n") * min(512, left // 80 + 1))
    output.say("said a lot on stderr")


def _children(output: OneshotOutput, rest: str) -> None:
    count, _, how = rest.partition(" ")
    for _ in range(int(count or 1)):
        code = _DAEMON if how == "detached" else _SLEEPER
        child = subprocess.Popen([sys.executable, "-c", code])
        if how == "detached":
            child.wait()
    output.say("children are running")


def _crash(output: OneshotOutput, rest: str) -> None:
    output.say("crashing")
    sys.stderr.write("about to crash\n")
    sys.stderr.flush()
    if rest.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[rest])
        time.sleep(60)
    os._exit(int(rest or 3))


def _hang_up(output: OneshotOutput, rest: str) -> None:
    """Close standard output and live on."""
    sys.stdout.buffer.flush()
    os.close(1)
    time.sleep(float(rest or 3600))


def _error(output: OneshotOutput, rest: str) -> None:
    raise FakeOneshotFailedError(rest or "it went wrong")


COMMANDS: dict[str, Callable[[OneshotOutput, str], None]] = {
    "echo": lambda output, rest: output.say(rest),
    "think": lambda output, rest: output.think(rest or "hm"),
    "stream": _stream,
    "flood": lambda output, rest: _stream(output, rest or "20000"),
    "wait": _wait,
    "history": lambda output, _: output.say(" | ".join(output.memory.prompts[:-1]) or "(nothing)"),
    "tool": lambda output, rest: output.tool(rest or "look"),
    "ask": _ask,
    "do": _do,
    "sneak": _sneak("sneak"),
    "sneak-run": _sneak("sneak-run"),
    "hide": _hide,
    "plan": lambda output, rest: output.plan((rest or "look,mend").split(",")),
    "unknown": lambda output, rest: output.unknown(rest),
    "garbage": _garbage,
    "stderr": _stderr,
    "children": _children,
    "crash": _crash,
    "hang-up": _hang_up,
    "error": _error,
    "silence": lambda output, rest: os._exit(int(rest or 0)),
}


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
    if output.takes_commands:
        return output.take_commands()
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
