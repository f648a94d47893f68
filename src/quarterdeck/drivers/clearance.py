"""What was permitted in a turn, for what the agent then has us do.

An agent that asked for leave and got it writes the file, or runs the command, through us. That is
the same deed and is not asked about twice: leave to edit a file covers reading it and one write of
it, leave for a command one terminal with exactly that command in that directory, leave to read a
file any reading of it. It ends with the turn. All else that an agent has us do is decided by
itself.
"""

import posixpath
import re
import shlex
from dataclasses import dataclass, field

from quarterdeck.policy.call import Call
from quarterdeck.policy.gate import Permitted

__all__ = ["Clearances", "core_command"]

_SHELLS = frozenset(
    f"{place}{name}"
    for place in ("", "/bin/", "/usr/bin/", "/usr/local/bin/")
    for name in ("sh", "bash", "dash")
)
_LINE_FLAGS = frozenset(("-c", "-lc", "-cl", "-ic", "-lic"))
_CHANGE = re.compile(
    r"cd (?P<place>'[^']*'|\"[^\"$`\\]*\"|[^\s'\"$`\\;&|<>()*?\[{~#]+) && (?P<rest>.+)", re.S
)


@dataclass(slots=True)
class Clearances:
    """What is permitted and not used up; by real paths, and by command and directory."""

    _reads: set[str] = field(default_factory=set[str])
    _writes: dict[str, int] = field(default_factory=dict[str, int])
    _commands: dict[tuple[str, str], list[Permitted]] = field(
        default_factory=dict[tuple[str, str], list[Permitted]]
    )

    def add(self, call: Call, permitted: Permitted) -> None:
        """The agent got leave for this call."""
        for use in call.paths:
            self._reads.add(use.resolved)
            if use.access == "write":
                self._writes[use.resolved] = self._writes.get(use.resolved, 0) + 1
        if call.command is not None:
            self._commands.setdefault(_key(call), []).append(permitted)

    def take(self, call: Call) -> Permitted | None:
        """The leave that covers what we are to do; used up where it was for one time."""
        if call.command is not None:
            waiting = self._commands.get(_key(call))
            return waiting.pop() if waiting else None
        if not call.paths or call.doubts:
            return None
        reads = [use.resolved for use in call.paths if use.access == "read"]
        writes = [use.resolved for use in call.paths if use.access == "write"]
        if any(path not in self._reads for path in reads):
            return None
        if any(not self._writes.get(path) for path in writes):
            return None
        for path in writes:
            self._writes[path] -= 1
        return Permitted()

    def clear(self) -> None:
        """The turn is over, and what was permitted in it."""
        self._reads.clear()
        self._writes.clear()
        self._commands.clear()


def core_command(command: str, cwd: str) -> str:
    """The line that a shell is started for, without the shell and without going where it is.

    ``/bin/bash -lc 'cd /work && make'`` in ``/work`` is ``make``; what is not plainly so stays.
    """
    line = command.strip()
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    if len(words) == 3 and words[0] in _SHELLS and words[1] in _LINE_FLAGS:
        line = words[2].strip()
    moved = _CHANGE.fullmatch(line)
    if moved is not None and _is_same_place(moved["place"], cwd):
        return moved["rest"].strip()
    return line


def _is_same_place(quoted: str, cwd: str) -> bool:
    place = quoted[1:-1] if quoted[0] in "'\"" else quoted
    return place.startswith("/") and posixpath.normpath(place) == posixpath.normpath(cwd)


def _key(call: Call) -> tuple[str, str]:
    return core_command(call.command or "", call.cwd), posixpath.normpath(call.cwd)
