"""Programs that run agents: ways from an agent to a reader's pipe, and clients on a terminal.

The agent is always the stand-in, which costs next to nothing and notes when it does something. In
commands and files of the home, ``{agent}`` is its command line, ``{agent_json}`` the same as a list
of JSON, ``{prompt}`` what it is told, ``{name}`` a name that is used once.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..processes import started
from ..terminals import Screen, on_terminal
from .acp_process import SubjectFailedError
from .figures import Figure, SubjectResults, summarize
from .numbers import count_numbers, has_number
from .subject import Subject, fill

__all__ = ["ClientPlan", "ClientSubject", "measure_client", "measure_path"]

_STAND_IN = Path(__file__).with_name("stand_in.py")
_KEYS = "ЖЯЮЩЦЭФШЫЧ"
_PATIENCE = 120.0
_QUIET = 0.5


@dataclass(frozen=True, slots=True)
class ClientSubject:
    """A client on a terminal, and the commands around it."""

    opens: Subject
    """Opens the client."""
    spawn: tuple[str, ...]
    """Starts an agent that the client shows, and returns at once: ``{name}`` and ``{prompt}``."""
    ready: str
    """What the terminal shows when the client takes keys."""


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """How much is measured."""

    rounds: int
    words: int
    agents: int
    entries: int
    keys: int
    seconds: float = 600.0
    """For how long agents speak at the most."""


class _Rig:
    """A home with the stand-in in it; it is removed at the end."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.moments = folder / "moments"
        self.project = folder / "project"
        self.project.mkdir()
        agent = [sys.executable, "-S", str(_STAND_IN), str(self.moments)]
        self._values = {"agent": shlex.join(agent), "agent_json": json.dumps(agent)}
        files = {path: fill(text, self._values) for path, text in subject.files.items()}
        self.command, self.environment = replace(subject, files=files).prepare(folder, "")
        self._errors = folder / "stderr"

    def fill(self, words: Sequence[str], **values: str) -> list[str]:
        """A command with its places filled."""
        home = {"home": self.environment["HOME"]}
        return [fill(word, {**self._values, **home, **values}) for word in words]

    def run(self, words: Sequence[str], **values: str) -> None:
        """Run a command to its end. Raises SubjectFailedError."""
        command = self.fill(words, **values)
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
        if done.returncode:
            raise SubjectFailedError(f"{shlex.join(command)} failed: {done.stderr[-300:]!r}")

    def read_moment(self, what: str) -> float:
        """When the stand-in did something; waits for it."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if self.moments.exists():
                for line in self.moments.read_text().splitlines():
                    one = json.loads(line)
                    if one["what"] == what:
                        return float(one["at"])
            time.sleep(0.01)
        raise SubjectFailedError(f"the agent was never told {what!r}")


@contextlib.contextmanager
def _rig(subject: Subject) -> Generator[_Rig]:
    with tempfile.TemporaryDirectory(prefix="fleet-bench-", ignore_cleanup_errors=True) as folder:
        rig = _Rig(subject, Path(folder))
        try:
            yield rig
        finally:
            if subject.stop:
                with contextlib.suppress(SubjectFailedError):
                    rig.run(subject.stop)


def measure_path(subject: Subject, words: int, rounds: int) -> SubjectResults:
    """A command that prints what an agent says: pieces a second, and what is lost on the way."""
    results = SubjectResults(subject.name, "path", shlex.join(subject.command))
    rates: list[float] = []
    cpu: list[float] = []
    try:
        for _ in range(rounds):
            with _rig(subject) as rig:
                wall, cost, text = _read_path(rig, words)
            count = count_numbers(text, words)
            rates.append(words / wall if wall else 0.0)
            cpu.append(cost / words * 1e6)
            results.figures = [
                summarize("pieces a second", "1/s", rates),
                summarize("CPU of the command, a piece", "µs", cpu),
                Figure("lost", "words", count.lost, (), f"of {words:,}"),
                Figure("doubled or out of order", "words", count.doubled + count.out_of_order),
            ]
    except SubjectFailedError as error:
        results.missing["stream"] = str(error)
    return results


def _read_path(rig: _Rig, words: int) -> tuple[float, float, str]:
    """Seconds from the prompt to the end of the output, CPU seconds, and the output.

    An agent that does not note when it is told something is timed from its first word.
    """
    command = rig.fill(rig.command, prompt=f"stream {words}", name="stream")
    errors = rig.project.parent / "errors"
    around = {"cwd": rig.project, "environment": rig.environment, "stderr": errors}
    parts: list[str] = []
    first: float | None = None
    with started(command, **around) as program:
        while data := os.read(program.stdout.fileno(), 1 << 16):
            parts.append(data.decode("utf-8", "replace"))
            if first is None and has_number(parts[-1]):
                first = time.monotonic()
        over = time.monotonic()
        program.wait()
    if program.cost.code or first is None:
        told = errors.read_text(errors="replace")[-300:]
        raise SubjectFailedError(
            f"it ended with status {program.cost.code}: {told!r} {''.join(parts)[-200:]!r}"
        )
    begun = rig.read_moment("prompt") if rig.moments.exists() else first
    return over - begun, program.cost.cpu, "".join(parts)


def measure_client(subject: ClientSubject, plan: ClientPlan) -> SubjectResults:
    """A client on a terminal of 120×40: requests, keys under load, a client that is killed."""
    results = SubjectResults(subject.opens.name, "client", shlex.join(subject.opens.command))
    measures: Mapping[str, Callable[[ClientSubject, _Rig, ClientPlan], Sequence[Figure]]] = {
        "ask → seen": _measure_asks,
        "keys": _measure_keys,
        "recovery": _measure_recovery,
    }
    for what, measure in measures.items():
        try:
            with _rig(subject.opens) as rig:
                results.figures += measure(subject, rig, plan)
        except (SubjectFailedError, RuntimeError, subprocess.TimeoutExpired) as error:
            results.missing[what] = str(error)[-400:]
    return results


def _open(subject: ClientSubject, rig: _Rig) -> contextlib.AbstractContextManager[Screen]:
    command = rig.fill(rig.command)
    return on_terminal(command, cwd=rig.project, environment=rig.environment)


def _measure_asks(subject: ClientSubject, rig: _Rig, plan: ClientPlan) -> Sequence[Figure]:
    """From the agent's request to its title on the screen."""
    taken: list[float] = []
    with _open(subject, rig) as screen:
        screen.wait_for(subject.ready)
        for number in range(plan.rounds):
            word = f"zebra{number}x"
            rig.run(subject.spawn, name=f"asks{number}", prompt=f"ask {word}")
            seen = screen.wait_for(word)
            # The same clock: on Linux both are CLOCK_MONOTONIC.
            taken.append((seen - rig.read_moment(word)) * 1000)
    return [summarize("agent asks → person sees", "ms", taken)]


def _measure_keys(subject: ClientSubject, rig: _Rig, plan: ClientPlan) -> Sequence[Figure]:
    """From a key to its character, with a long session in view and many agents that speak."""
    rig.run(subject.spawn, name="entries", prompt=f"entries {plan.entries}")
    for number in range(plan.agents):
        rig.run(subject.spawn, name=f"speaks{number}", prompt=f"speak {plan.seconds} 20")
    with _open(subject, rig) as screen:
        screen.wait_for(subject.ready)
        _wait_for_quiet(screen)
        taken = [_press(screen, _KEYS[number % len(_KEYS)]) for number in range(plan.keys)]
        memory = screen.memory() / 1e6
    note = f"{plan.agents} agents × 20/s, {plan.entries:,} entries"
    return [
        summarize("key → screen under load", "ms", taken, note),
        Figure("slowest key", "ms", max(taken), tuple(taken)),
        Figure("memory of the client then (RSS)", "MB", memory, (memory,)),
    ]


def _press(screen: Screen, letter: str) -> float:
    at = screen.mark()
    pressed = screen.press(letter)
    taken = screen.wait_for(letter, after=at, seconds=20) - pressed
    time.sleep(0.05)
    return taken * 1000


def _measure_recovery(subject: ClientSubject, rig: _Rig, plan: ClientPlan) -> Sequence[Figure]:
    """SIGKILL to the client while an agent streams; from the next start until it takes keys."""
    rig.run(subject.spawn, name="streams", prompt=f"speak {plan.seconds} 20")
    taken: list[float] = []
    for _ in range(plan.rounds):
        with _open(subject, rig) as screen:
            screen.wait_for(subject.ready)
            os.killpg(screen.process.pid, signal.SIGKILL)
        with _open(subject, rig) as screen:
            taken.append((screen.wait_for(subject.ready) - screen.begun) * 1000)
    return [summarize("kill −9 → client takes keys again", "ms", taken)]


def _wait_for_quiet(screen: Screen, longest: float = 10.0) -> None:
    """Until a start is over: it uses less than half a core."""
    deadline = time.monotonic() + longest
    while time.monotonic() < deadline and screen.share(_QUIET) > 0.5:
        pass
