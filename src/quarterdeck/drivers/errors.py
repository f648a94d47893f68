"""Why a session of another agent cannot be opened or cannot do what it was asked.

::

    DriverError
    ├── UnknownAgentError    no agent of that name is described
    ├── BadAgentFileError    a description cannot be used
    ├── UnsupportedError     this agent, or this transport of it, cannot do what was asked
    │   ├── SteeringUnsupportedError it takes no message while a turn runs
    │   └── UnenforceableError   it could not keep to a mode or a rule
    ├── NotPermittedError    what an agent had us do may not be done
    └── OpenFailedError      the agent did not start
        ├── AgentMissingError    its program is not installed
        ├── LoginNeededError     it wants to be logged in first
        ├── WrongProtocolError   it speaks another protocol or version
        └── StartTimeoutError    it did not answer in time

An open session fails in the four words of ``quarterdeck.wire.errors``: Closed, Ended, Broken, Busy.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "AgentMissingError",
    "BadAgentFileError",
    "DriverError",
    "LoginKind",
    "LoginMethod",
    "LoginNeededError",
    "NotPermittedError",
    "OpenFailedError",
    "StartTimeoutError",
    "SteeringUnsupportedError",
    "UnenforceableError",
    "UnknownAgentError",
    "UnsupportedError",
    "WrongProtocolError",
]


_STDERR_LINES = 10
_STDERR_WIDTH = 300


class DriverError(QuarterdeckError):
    """Base of every error of this room."""


class UnknownAgentError(DriverError):
    """No agent of that name is described."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        near = difflib.get_close_matches(name.lower(), known, n=2)
        meant = f" Did you mean {' or '.join(repr(other) for other in near)}?" if near else ""
        super().__init__(
            f"there is no agent {name!r}; known agents are {', '.join(known)}.{meant} See "
            "`quarterdeck agents`; to add an agent, see docs/agents.md."
        )
        self.name = name


class BadAgentFileError(DriverError):
    """A description of an agent cannot be used; the message names the file and the place."""


class UnsupportedError(DriverError):
    """An option or a method that this agent, over this transport, cannot honour."""

    def __init__(self, agent: str, transport: str, what: str, instead: str = "") -> None:
        super().__init__(
            f"{agent} over {transport} cannot {what}." + (f" {instead}" * bool(instead))
        )
        self.what = what


class SteeringUnsupportedError(UnsupportedError):
    """The agent takes no message while a turn runs."""

    def __init__(self, agent: str, transport: str) -> None:
        instead = "Send it as a prompt, which is queued, or interrupt the agent first."
        super().__init__(agent, transport, "be steered during a turn", instead)


class UnenforceableError(UnsupportedError):
    """A mode or a rule that this agent, over this transport, could not keep to."""


class NotPermittedError(DriverError):
    """What an agent had us do may not be done; the message is for the agent.

    ``cancelled``: no decision was made, because the turn is being stopped.
    """

    def __init__(self, reason_text: str, *, cancelled: bool = False) -> None:
        super().__init__(reason_text)
        self.cancelled = cancelled


class OpenFailedError(DriverError):
    """The agent did not start.

    ``exit_code`` or ``signal`` are set when its process is gone; ``stderr`` holds the last lines
    it wrote, secrets masked. The message has all of it.
    """

    def __init__(
        self,
        reason: str,
        *,
        exit_code: int | None = None,
        signal: str | None = None,
        stderr: str = "",
    ) -> None:
        super().__init__(_describe_exit(reason, exit_code, signal, stderr))
        self.reason = reason
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = stderr

    def add_hint(self, hint: str | None) -> None:
        """Add a line that says what to do, if there is one."""
        if hint:
            self.args = (f"{self}\n{hint}",)


def _describe_exit(reason: str, exit_code: int | None, signal: str | None, stderr: str) -> str:
    how = f"signal {signal}" if signal else f"exit code {exit_code}"
    is_known = signal is not None or exit_code is not None
    text = f"{reason} ({how})" if is_known and how not in reason else reason
    lines = [line.rstrip() for line in stderr.splitlines() if line.strip()]
    if all(line.strip() in text for line in lines):
        return text
    quoted = "\n".join(f"  {line[:_STDERR_WIDTH]}" for line in lines[-_STDERR_LINES:])
    return f"{text}\nIts last lines on standard error:\n{quoted}"


class AgentMissingError(OpenFailedError):
    """The agent's program is not there."""

    def __init__(self, agent: str, program: str, searched: str, install: str) -> None:
        hint = f" Install it with: {install}" if install else ""
        super().__init__(f"{agent}: no program {program!r} in {searched}.{hint}")
        self.program = program
        self.searched = searched
        self.install = install


LoginKind: TypeAlias = Literal["agent", "terminal", "variables"]
"""Who does it: the agent on request; a program in a terminal; the user, by setting variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginMethod:
    """A way to log in that an agent offers."""

    id: str
    name: str
    description: str | None = None
    kind: LoginKind = "agent"
    command: tuple[str, ...] | None = None
    """A command for a terminal; None: it needs none."""
    variables: tuple[str, ...] = ()
    """Variables that must be set, where the agent reads keys from its environment."""
    link: str | None = None
    """A page about it."""


class LoginNeededError(OpenFailedError):
    """The agent wants to be logged in first; ``methods`` are the ways it offers."""

    def __init__(
        self, reason: str, methods: Sequence[LoginMethod] = (), *, stderr: str = ""
    ) -> None:
        ways = "; ".join(
            f"{method.name}: run `{' '.join(method.command)}`" if method.command else method.name
            for method in methods
        )
        super().__init__(f"{reason} Login methods: {ways}." if ways else reason, stderr=stderr)
        self.methods = tuple(methods)


class WrongProtocolError(OpenFailedError):
    """The agent speaks another protocol, or another version of it."""


class StartTimeoutError(OpenFailedError):
    """The agent did not answer in time; it has been ended."""
