"""The modes: what happens to a call that no rule decides.

A mode gives each kind of deed one of four answers. ``ask`` may be lifted by an allow rule;
``insist`` asks whatever the rules allow; ``deny`` is a ceiling that no allow rule lifts. Deny and
ask rules hold in every mode. A mode is an argument of each decision, so a switch applies at once
to every later call.

The one mode that does not ask is ``full-auto``, and what it leaves unasked is exactly what a
sandbox contains.
"""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from quarterdeck.wire.settings import PermissionMode

from .errors import UnknownMode

__all__ = [
    "DEFAULT_MODE",
    "MODES",
    "NO_SANDBOX",
    "Answer",
    "Containment",
    "Deed",
    "Mode",
    "Sandbox",
    "answer_of",
    "parse_mode",
]

Mode: TypeAlias = PermissionMode
MODES: tuple[Mode, ...] = get_args(Mode)
DEFAULT_MODE: Mode = "ask"

Deed: TypeAlias = Literal[
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

Answer: TypeAlias = Literal["allow", "ask", "insist", "deny"]

_SANDBOXED: frozenset[Deed] = frozenset(("run", "run reading", "run reading outside", "run write"))
"""What a sandbox contains when only shell commands run in it."""
_SANDBOXED_AGENT: frozenset[Deed] = frozenset(("read outside", "mcp", "other"))
"""What it contains besides, when the agent itself runs in it."""

_ASK: dict[Deed, Answer] = {"read": "allow", "run reading": "allow", "think": "allow"}
_TABLE: dict[Mode, dict[Deed, Answer]] = {
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


class Sandbox(Struct, frozen=True, kw_only=True):
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

NO_SANDBOX = Sandbox()


def parse_mode(name: str) -> Mode:
    """Return the mode of that name.

    Raises:
        UnknownMode: no mode has it; the message says which it may have meant.
    """
    for mode in MODES:
        if name == mode:
            return mode
    if meant := _FOREIGN_NAMES.get(name.lower()):
        raise UnknownMode(name, f"write {meant!r}")
    raise UnknownMode(name, f"write one of {', '.join(MODES)}")


def answer_of(mode: Mode, deed: Deed, sandbox: Sandbox = NO_SANDBOX) -> Answer:
    """Say what ``mode`` does with a deed that no rule decides."""
    if mode == "deny-all":
        return "deny"
    if mode == "full-auto" and sandbox.in_force and _contained(deed, sandbox):
        return "allow"
    return _TABLE[mode].get(deed, "ask")


def _contained(deed: Deed, sandbox: Sandbox) -> bool:
    if deed == "fetch":
        return sandbox.network
    return deed in _SANDBOXED or (sandbox.whole_agent and deed in _SANDBOXED_AGENT)
