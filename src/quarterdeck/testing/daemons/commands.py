"""What a line of a prompt makes a fake server do; ``docs/fake-agent.md`` is the list."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from quarterdeck.testing.disk_actions import DiskAction, parse_action, parse_sneak

__all__ = ["FakeServerFailedError", "FakeTurnOutput", "run_prompt"]

_SLEEPER = "import time; time.sleep(600)"
_DAEMON = (
    "import os, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "time.sleep(600)"
)


class FakeServerFailedError(Exception):
    """The model failed, and with it the turn."""


class FakeTurnOutput(Protocol):
    """How a server reports what its model does in one turn."""

    @property
    def prompts(self) -> list[str]:
        """Those of the session, this turn's last."""
        ...

    def take_steering(self) -> list[str]:
        """The lines of messages that came during the turn, each once."""
        ...

    async def say(self, text: str) -> None:
        """Say a piece of a message."""
        ...

    async def think(self, text: str) -> None:
        """Think a piece of a thought."""
        ...

    async def tool(self, title: str) -> None:
        """Run a tool to its good end."""
        ...

    async def ask(self, title: str) -> bool:
        """Run a shell command that needs permission; returns whether it was given."""
        ...

    async def act(self, action: DiskAction, *, asks: bool = True) -> str | None:
        """Do something, with permission where the client wants to be asked; None: it was refused.

        Not ``asks``: no permission is requested, whatever the client wants.
        """
        ...

    async def plan(self, steps: list[str]) -> None:
        """Send a plan."""
        ...

    async def unknown(self, text: str) -> None:
        """Send a notification of an unknown kind."""
        ...

    async def garbage(self, count: int) -> None:
        """Send what is no message."""
        ...


async def run_prompt(output: FakeTurnOutput, prompt: str) -> None:
    """Do what each line says; one that is no command is echoed.

    Raises:
        FakeServerFailedError: the prompt makes the model fail.
    """
    lines = prompt.split("\n")
    while lines:
        line = lines.pop(0)
        name, _, rest = line.strip().partition(" ")
        command = _COMMANDS.get(name)
        if command is not None:
            await command(output, rest)
        elif line.strip():
            await output.say(line)
        lines += output.take_steering()


async def _stream(output: FakeTurnOutput, rest: str) -> None:
    count, _, size = rest.partition(" ")
    filler = "x" * int(size or 0)
    for number in range(int(count or 10)):
        await output.say(f"chunk {number}{filler}\n")


async def _wait(output: FakeTurnOutput, rest: str) -> None:
    await output.say("waiting")
    await asyncio.sleep(float(rest or 3600))


async def _history(output: FakeTurnOutput, rest: str) -> None:
    await output.say(" | ".join(output.prompts[:-1]) or "(nothing)")


async def _ask(output: FakeTurnOutput, rest: str) -> None:
    allowed = await output.ask(rest or "run a command")
    await output.say("allowed" if allowed else "denied")


async def _do(output: FakeTurnOutput, rest: str) -> None:
    result = await output.act(parse_action(rest))
    await output.say("denied\n" if result is None else f"{result}\n")


async def _sneak(output: FakeTurnOutput, action: DiskAction) -> None:
    """Do it and report it, without asking."""
    await output.act(action, asks=False)


async def _hide(output: FakeTurnOutput, rest: str) -> None:
    await asyncio.to_thread(parse_sneak("hide", rest).carry_out)


async def _garbage(output: FakeTurnOutput, rest: str) -> None:
    await output.garbage(int(rest or 3))
    await output.say("after the garbage")


async def _stderr(output: FakeTurnOutput, rest: str) -> None:
    left = int(rest or 1_000_000)
    while left > 0:
        left -= os.write(2, (b"e" * 79 + b"\n") * min(512, left // 80 + 1))
    await output.say("said a lot on stderr")


async def _children(output: FakeTurnOutput, rest: str) -> None:
    count, _, how = rest.partition(" ")
    code = _DAEMON if how == "detached" else _SLEEPER
    for _ in range(int(count or 1)):
        child = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", code])
        if how == "detached":
            await asyncio.to_thread(child.wait)
        else:
            _CHILDREN.append(child)
    await output.say("children are running")


_CHILDREN: list["subprocess.Popen[bytes]"] = []


async def _crash(output: FakeTurnOutput, rest: str) -> None:
    await output.say("crashing")
    os.write(2, b"about to crash\n")
    if rest.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[rest])
        time.sleep(60)  # noqa: ASYNC251  wait until the signal is there
    os._exit(int(rest or 3))


async def _hang_up(output: FakeTurnOutput, rest: str) -> None:
    """Close standard output and live on."""
    os.close(1)
    await asyncio.sleep(float(rest or 3600))


async def _error(output: FakeTurnOutput, rest: str) -> None:
    raise FakeServerFailedError(rest or "it went wrong")


_COMMANDS: dict[str, Callable[[FakeTurnOutput, str], Awaitable[None]]] = {
    "echo": lambda output, rest: output.say(rest),
    "think": lambda output, rest: output.think(rest or "hm"),
    "stream": _stream,
    "flood": lambda output, rest: _stream(output, rest or "20000"),
    "wait": _wait,
    "history": _history,
    "tool": lambda output, rest: output.tool(rest or "look"),
    "ask": _ask,
    "do": _do,
    "sneak": lambda output, rest: _sneak(output, parse_sneak("sneak", rest)),
    "sneak-run": lambda output, rest: _sneak(output, parse_sneak("sneak-run", rest)),
    "hide": _hide,
    "plan": lambda output, rest: output.plan((rest or "look,mend").split(",")),
    "unknown": lambda output, rest: output.unknown(rest),
    "garbage": _garbage,
    "stderr": _stderr,
    "children": _children,
    "crash": _crash,
    "hang-up": _hang_up,
    "error": _error,
}
