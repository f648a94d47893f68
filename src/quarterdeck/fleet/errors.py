"""What a fleet refuses, and why.

::

    FleetError
    ├── NoSuchAgentError     no agent has this name or id
    ├── AmbiguousAgentError  agents of several hosts have this name
    ├── SeveralHostsError    a call that several hosts cannot answer together
    ├── NoSuchRequestError   nothing of this id is in the inbox
    ├── NoSuchFleetTerminalError no terminal has this id, and no agent a screen
    ├── InvalidAgentNameError a name that cannot be one
    ├── InvalidOptionsError  an agent or terminal that cannot have these options
    ├── NameTakenError       another agent has it
    ├── AgentNotReadyError   the agent is not in a state for this
    ├── NotAChildError       an agent may act on its own children only
    ├── NotAnApproverError   other people have to answer a request
    ├── ExceedsParentError   a child that could do more than the agent that starts it
    ├── FleetLimitError      a limit on agents or on depth
    ├── WorktreeError        a worktree cannot be used or removed as it is
    │   ├── NoSuchWorktreeError  none has this name, path or agent
    │   └── WorktreeSetupError   a set-up command failed
    ├── LandingRefusedError  the work of an agent cannot be landed as it is
    ├── NoSuchLandingError   no landing has this id
    ├── WorktreeError        a worktree cannot be used or removed as it is
    │   ├── NoSuchWorktreeError  none has this name, path or agent
    │   └── WorktreeSetupError   a set-up command failed
    ├── WorkbenchCallError   a workbench did not do what it was called for
    │   ├── NoWorkbenchError     none is open
    │   ├── WorkbenchGoneError   it was closed meanwhile
    │   ├── WorkbenchTimeoutError it did not answer in time
    │   └── WorkbenchRefusedError it says why it will not
    └── HostError            the host cannot be reached, or is another version
        ├── NoHostError          none is running
        │   └── HostUnreachableError its machine cannot be reached now
        ├── HostVersionError     it speaks another version than this program
        ├── HostAddressError     what ``--host`` names is no address of a host
        └── RemoteHostError      a host on another machine cannot be used as things are
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "AgentNotReadyError",
    "AmbiguousAgentError",
    "ExceedsParentError",
    "FleetError",
    "FleetLimitError",
    "HostAddressError",
    "HostError",
    "HostUnreachableError",
    "HostVersionError",
    "InvalidAgentNameError",
    "InvalidOptionsError",
    "LandingRefusedError",
    "NameTakenError",
    "NoHostError",
    "NoSuchAgentError",
    "NoSuchFleetTerminalError",
    "NoSuchLandingError",
    "NoSuchRequestError",
    "NoSuchWorktreeError",
    "NoWorkbenchError",
    "NotAChildError",
    "NotAnApproverError",
    "RemoteHostError",
    "RemoteProblem",
    "SeveralHostsError",
    "WorkbenchCallError",
    "WorkbenchGoneError",
    "WorkbenchRefusedError",
    "WorkbenchTimeoutError",
    "WorktreeError",
    "WorktreeSetupError",
]


class FleetError(QuarterdeckError):
    """Base of every error of this room."""


class NoSuchAgentError(FleetError):
    """No agent has this name or id."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        from difflib import get_close_matches  # few names are wrong

        near = get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; `quarterdeck ps --all` lists them"
        super().__init__(f"there is no agent {name!r}{hint}")
        self.name = name


class AmbiguousAgentError(FleetError):
    """Agents of several hosts have this name; the message lists them."""

    def __init__(self, name: str, found: Iterable[str]) -> None:
        self.names = tuple(found)
        super().__init__(
            f"{len(self.names)} hosts have an agent {name!r}; name one of {', '.join(self.names)}"
        )
        self.name = name


class SeveralHostsError(FleetError):
    """A call that several hosts cannot answer together; the message says what to name."""


class NoSuchRequestError(FleetError):
    """Nothing of this id waits in the inbox."""

    def __init__(self, request: str) -> None:
        super().__init__(f"no request {request!r} is open; `quarterdeck inbox` lists open requests")
        self.request = request


class NoSuchFleetTerminalError(FleetError):
    """No terminal has this id, and no agent of this name has a screen; ``why`` says more."""

    def __init__(self, terminal: str, why: str = "") -> None:
        super().__init__(
            f"there is no terminal {terminal!r}{f': {why}' if why else ''}; `quarterdeck terminal "
            "list` shows open terminals"
        )
        self.terminal = terminal


class InvalidAgentNameError(FleetError):
    """A name that cannot be one; the message says what can."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is not a valid agent name: use 1 to 40 letters, digits, '-', '_' or '.', "
            "starting with a letter or a digit"
        )


class InvalidOptionsError(FleetError):
    """An agent or a terminal cannot have these options; the message names the field."""


class NameTakenError(FleetError):
    """Another agent that is not archived has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is already an agent {name!r}; archive it or choose another name")


class AgentNotReadyError(FleetError):
    """The agent or terminal is not in a state for this; the message says what can be done."""


class NotAChildError(FleetError):
    """An agent may act on its own children only."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is not an agent that you started; list_agents shows yours")


class ExceedsParentError(FleetError):
    """A child would be able to do more than the agent that starts it; names what is too much."""


class FleetLimitError(FleetError):
    """A limit on agents, depth or terminals; the message names it."""


class LandingRefusedError(FleetError):
    """The work of an agent cannot be landed as it is; nothing was changed, and it says why."""


class NoSuchLandingError(FleetError):
    """No landing has this id."""

    def __init__(self, landing: str) -> None:
        super().__init__(f"there is no landing {landing!r}; `quarterdeck land --list` shows them")
        self.landing = landing


class WorktreeError(FleetError):
    """A worktree cannot be used, removed or restored as it is; the message says why."""


class NoSuchWorktreeError(WorktreeError):
    """No worktree, or none in the trash, has this name or path or belongs to this agent."""

    def __init__(self, name: str, *, is_trash: bool = False) -> None:
        command = "worktrees trash" if is_trash else "worktrees"
        where = "in the trash " if is_trash else ""
        super().__init__(
            f"there is no worktree {name!r} {where}".rstrip() + f"; `quarterdeck {command}` lists "
            "them"
        )
        self.name = name


class NotAnApproverError(FleetError):
    """Other people have to answer a request; the message names them."""

    def __init__(self, why: str, people: "tuple[str, ...]") -> None:
        super().__init__(f"{why}; it needs {' or '.join(people)}")
        self.people = people


class WorktreeSetupError(WorktreeError):
    """A set-up command of a worktree failed, so the agent did not start."""


class WorkbenchCallError(FleetError):
    """A workbench did not do what it was called for; the message says why."""


class NoWorkbenchError(WorkbenchCallError):
    """No workbench is open."""

    def __init__(self) -> None:
        super().__init__(
            "no workbench is open, so there is nothing to change; continue without it. A person "
            "opens one with `quarterdeck`"
        )


class WorkbenchGoneError(WorkbenchCallError):
    """The workbench was closed while it was called."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the workbench disconnected during {name!r}, which may or may not be done; check the "
            "layout before you try again"
        )


class WorkbenchTimeoutError(WorkbenchCallError):
    """The workbench did not answer in time."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"the workbench did not answer {name!r} within {seconds:g} s and the call was "
            "cancelled; check the layout before you try again"
        )


class WorkbenchRefusedError(WorkbenchCallError):
    """The workbench will not; the message is its own."""


class HostError(FleetError):
    """The host cannot be used."""


class NoHostError(HostError):
    """No host is running."""


class HostVersionError(HostError):
    """The host speaks another version than this program."""


class HostUnreachableError(NoHostError):
    """The machine of a host cannot be reached now; it may be reached later."""


class HostAddressError(HostError):
    """What was given as the address of a host is none; the message says which part."""

    def __init__(self, given: str, why: str) -> None:
        super().__init__(f"cannot use the host {given!r}: {why}")
        self.given = given


RemoteProblem: TypeAlias = Literal[
    "ssh-missing",
    "login-refused",
    "key-unknown",
    "key-changed",
    "program-missing",
    "forwarding-refused",
    "failed",
]
"""What is in the way of a host on another machine, and stays until a person changes it."""


class RemoteHostError(HostError):
    """A host on another machine cannot be used as things are; to try again does not help."""

    def __init__(self, problem: RemoteProblem, message: str) -> None:
        super().__init__(message)
        self.problem: RemoteProblem = problem
