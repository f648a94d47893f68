"""The modes: what happens to a call that no rule decides; effects and scopes of rules.

A mode gives each kind of action one of four answers. ``ask`` may be lifted by an allow rule;
``insist`` asks whatever the rules allow; ``deny`` is a ceiling that no allow rule lifts. Deny and
ask rules hold in every mode. A mode is an argument of each decision, so a switch applies at once
to every later call.

The one mode that does not ask is ``full-auto``, and what it leaves unasked is exactly what a
sandbox contains. An agent that starts others cannot give them a wider mode than its own.
"""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from quarterdeck.wire.settings import PermissionMode

from .errors import UnknownModeError

__all__ = [
    "DEFAULT_MODE",
    "MODES",
    "MODE_MEANINGS",
    "NO_SANDBOX",
    "SCOPES",
    "ActionKind",
    "Containment",
    "Effect",
    "Mode",
    "ModeAnswer",
    "SandboxState",
    "Scope",
    "is_wider",
    "mode_answer",
    "narrow_mode",
    "parse_mode",
]

Mode: TypeAlias = PermissionMode
MODES: tuple[Mode, ...] = get_args(Mode)
MODE_MEANINGS: dict[str, str] = {
    "read-only": "reads files of the project; changes nothing",
    "plan": "reads, asks before commands; changes no files",
    "ask": "needs your permission for edits and commands",
    "accept-edits": "edits files of the project; needs permission for commands",
    "full-auto": "edits, and runs commands inside the sandbox without asking",
    "deny-all": "denies every call",
}
"""What each means, for people."""
DEFAULT_MODE: Mode = "ask"

ActionKind: TypeAlias = Literal[
    "read",
    "read outside",
    "write",
    "write protected",
    "write outside",
    "run reading",
    "run reading outside",
    "run",
    "run outside",
    "run write",
    "run write outside",
    "fetch",
    "fetch inner",
    "mcp",
    "think",
    "other",
]
"""What a part of a call does. ``outside``: beyond the workspace roots. ``run …``: by a shell
command. ``run write``: a redirection. ``fetch inner``: an address that is not public."""

ModeAnswer: TypeAlias = Literal["allow", "ask", "insist", "deny"]

_SANDBOXED: frozenset[ActionKind] = frozenset(
    ("run", "run reading", "run reading outside", "run write")
)
"""What a sandbox contains when only shell commands run in it."""
_SANDBOXED_AGENT: frozenset[ActionKind] = frozenset(("read outside", "mcp", "other"))
"""What it contains besides, when the agent itself runs in it."""

_ASK: dict[ActionKind, ModeAnswer] = {"read": "allow", "run reading": "allow", "think": "allow"}
_TABLE: dict[Mode, dict[ActionKind, ModeAnswer]] = {
    "ask": _ASK,
    "accept-edits": {**_ASK, "write": "allow", "run write": "allow"},
    "full-auto": {**_ASK, "write": "allow"},
    "plan": {
        **_ASK,
        "write": "deny",
        "write protected": "deny",
        "write outside": "deny",
        "run": "insist",
        "run outside": "insist",
        "run write": "deny",
        "run write outside": "deny",
    },
    "read-only": {
        **_ASK,
        "write": "deny",
        "write protected": "deny",
        "write outside": "deny",
        "run": "deny",
        "run outside": "deny",
        "run write": "deny",
        "run write outside": "deny",
    },
}

_FOREIGN_NAMES: dict[str, Mode] = {
    "yolo": "full-auto",
    "bypasspermissions": "full-auto",
    "dontask": "full-auto",
    "danger-full-access": "full-auto",
    "full-access": "full-auto",
    "auto": "full-auto",
    "open": "full-auto",
    "default": "ask",
    "acceptedits": "accept-edits",
    "auto-edit": "accept-edits",
    "auto_edit": "accept-edits",
    "readonly": "read-only",
    "deny": "deny-all",
}


class SandboxState(Struct, frozen=True, kw_only=True):
    """What holds the commands of a session, as the system reports it."""

    in_force: bool = False
    """Shell commands can change nothing outside the workspace roots."""
    network: bool = False
    """The person let the session use the network."""
    whole_agent: bool = False
    """The agent's own process runs inside, and so does every tool of it."""
    seals: bool = False
    """A command that only its classification allows runs sealed: nothing is writable but a private
    temporary directory, and there is no network."""
    required: bool = False
    """The person wants no command to run where none is in force."""


Containment: TypeAlias = Literal["none", "workspace", "sealed"]
"""What a permitted command runs in: nothing; a sandbox with a writable workspace; a sandbox in
which nothing is writable but a private temporary directory, without a network."""

NO_SANDBOX = SandboxState()


def parse_mode(name: str) -> Mode:
    """Return the mode of that name.

    Raises:
        UnknownModeError: no mode has it; the message says which it may have meant.
    """
    for mode in MODES:
        if name == mode:
            return mode
    if meant := _FOREIGN_NAMES.get(name.lower()):
        raise UnknownModeError(name, f"write {meant!r}")
    raise UnknownModeError(name, f"write one of {', '.join(MODES)}")


def mode_answer(mode: Mode, action: ActionKind, sandbox: SandboxState = NO_SANDBOX) -> ModeAnswer:
    """Say what ``mode`` does with an action that no rule decides."""
    if mode == "deny-all":
        return "deny"
    if mode == "full-auto" and sandbox.in_force and _contained(action, sandbox):
        return "allow"
    return _TABLE[mode].get(action, "ask")


def _contained(action: ActionKind, sandbox: SandboxState) -> bool:
    if action == "fetch":
        return sandbox.network
    return action in _SANDBOXED or (sandbox.whole_agent and action in _SANDBOXED_AGENT)


_ORDER: dict[ModeAnswer, int] = {"deny": 0, "insist": 1, "ask": 2, "allow": 3}
_WITH_SANDBOX = SandboxState(in_force=True)


def is_wider(one: Mode, other: Mode) -> bool:
    """Whether a mode lets something pass that another does not; full-auto as in a sandbox."""
    actions: tuple[ActionKind, ...] = get_args(ActionKind)
    return any(
        _ORDER[mode_answer(one, action, _WITH_SANDBOX)]
        > _ORDER[mode_answer(other, action, _WITH_SANDBOX)]
        for action in actions
    )


def narrow_mode(wanted: Mode, own: Mode) -> Mode:
    """The mode that is wanted, or one's own where that would be wider."""
    return own if is_wider(wanted, own) else wanted


Effect: TypeAlias = Literal["allow", "ask", "deny"]
Scope: TypeAlias = Literal["call", "session", "project", "user"]
SCOPES: tuple[Scope, ...] = ("call", "session", "project", "user")
"""From the most specific to the least."""
