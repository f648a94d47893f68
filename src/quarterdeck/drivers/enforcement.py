"""Whether an agent can be held to a mode and to rules, before it is started.

An agent that asks before it does something is held by our answers. What it does unasked is held by
nothing but itself: then a mode is what its file has options for, and a rule about that call cannot
be kept. Opening such a session fails with the reason, unless ``permissions.unheld`` is ``warn``.
"""

from dataclasses import dataclass

from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import print_rule
from quarterdeck.policy.modes import Mode
from quarterdeck.policy.rules import (
    AnyCall,
    FetchPattern,
    McpPattern,
    NamedTool,
    PathPattern,
    Pattern,
    Rule,
    ShellPattern,
)
from quarterdeck.wire.tool_calls import ToolKind

from .agent_process import GuardedAction, Launch
from .driver import DriverSession, DriverSessionOptions
from .errors import UnenforceableError

__all__ = [
    "ALL",
    "Enforcement",
    "change_mode",
    "enforcement_of",
    "explain_unenforceable",
    "guarding_rules",
    "is_reading_guarded",
]

ALL: frozenset[GuardedAction] = frozenset(("read", "edit", "run"))

_LEFT: dict[Mode, frozenset[GuardedAction]] = {
    "deny-all": frozenset(),
    "read-only": frozenset(("read",)),
    "plan": frozenset(("read",)),
    "ask": frozenset(("read",)),
    "accept-edits": frozenset(("read", "edit")),
    "full-auto": ALL,
}
"""What an agent that never asks does in each mode that its file has options for."""
_ACTIONS: dict[str, GuardedAction] = {
    "read": "read",
    "search": "read",
    "edit": "edit",
    "delete": "edit",
    "move": "edit",
    "execute": "run",
}
_UNASKED: dict[GuardedAction, str] = {
    "read": "it reads files without asking",
    "edit": "it changes files without asking",
    "run": "it runs commands without asking",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """What a session of an agent asks about, and what it does unasked."""

    asks: frozenset[GuardedAction] = frozenset(("edit", "run"))
    """Empty: it never asks, and its mode was fixed by words of its file."""
    sealed: frozenset[GuardedAction] = frozenset()
    """What it does unasked where it can change nothing: in a sandbox of its own."""
    left: frozenset[GuardedAction] = frozenset(("read",))
    """What it does unasked."""
    denies: bool = False
    """What a rule denies it does not do, also where it does not ask."""
    asking_modes: tuple[str, ...] = ()
    """Modes of its own in which it asks; empty: any, or it has none."""

    def is_left(self, kind: ToolKind) -> bool:
        """Whether a call of this kind is known to be done unasked."""
        action = _ACTIONS.get(kind)
        return action is not None and (action in self.left or action in self.sealed)


def enforcement_of(launch: Launch, opening: DriverSessionOptions, *, asks: bool) -> Enforcement:
    """For a session that is to be opened. ``asks``: the transport has a way to."""
    asked: frozenset[GuardedAction] = launch.asks if asks else frozenset()
    sealed = launch.sealed
    is_chosen = (
        opening.options.agent_mode is not None
        and opening.options.agent_mode not in launch.asking_modes
    )
    if is_chosen:
        return Enforcement(asks=asked, sealed=sealed, left=ALL, denies=launch.always_asks)
    if not asked:
        return Enforcement(asks=asked, sealed=sealed, left=_LEFT[opening.mode] | sealed)
    modes = () if launch.always_asks else launch.asking_modes
    return Enforcement(asks=asked, sealed=sealed, left=ALL - asked, asking_modes=modes)


def explain_unenforceable(
    held: Enforcement, opening: DriverSessionOptions, gate: Gate, around: CallContext
) -> list[str]:
    """Why the session could not be held to its mode and its rules; empty: it can."""
    reasons: list[str] = []
    if opening.options.agent_mode is None and held.asks:
        reasons += _unheld_mode(held, gate.mode)
    for rule in guarding_rules(gate, around):
        if held.denies and rule.effect == "deny":
            continue
        loose: list[GuardedAction] = [
            one for one in _reached(rule.pattern, held) if one in held.left
        ]
        if loose:
            reasons.append(f"the rule {print_rule(rule)!r}: {_UNASKED[loose[0]]}")
    return reasons


def change_mode(session: DriverSession, mode: Mode) -> None:
    """Use another mode of ours from now on.

    Raises:
        UnenforceableError: the agent does not ask, and what it may do was fixed when it was
            started.
    """
    if not session.capabilities.asks and mode != session.gate.mode:
        raise UnenforceableError(
            session.agent,
            session.transport,
            f"be restricted to another mode than {session.gate.mode!r} while it runs: it does not "
            "ask",
            f"Restart it with the mode {mode!r}.",
        )
    session.gate.mode = mode


def is_reading_guarded(gate: Gate, around: CallContext) -> bool:
    """Whether the mode or a rule has something against reading, so that it must be asked about."""
    return gate.mode == "deny-all" or any(
        "read" in _reached(rule.pattern, Enforcement()) for rule in guarding_rules(gate, around)
    )


def guarding_rules(gate: Gate, around: CallContext) -> list[Rule]:
    """The rules that deny something or want to be asked, from wherever."""
    given = gate.granted_rules(project=around.project, session=around.session, agent=around.agent)
    return [rule for rule in (*gate.rules, *given) if rule.effect != "allow"]


def _unheld_mode(held: Enforcement, mode: Mode) -> list[str]:
    allowed = _LEFT[mode] if mode != "full-auto" else frozenset[GuardedAction](("read", "edit"))
    loose = held.left - allowed - held.sealed
    return [f"the mode {mode!r}: {why}" for action, why in _UNASKED.items() if action in loose]


def _reached(pattern: Pattern, held: Enforcement) -> tuple[GuardedAction, ...]:
    """The actions that a rule is about."""
    match pattern:
        case ShellPattern():
            return ("run",)
        case PathPattern(access="read"):
            # A command that runs unasked, sealed or not, can read as well.
            return ("read", "run") if "run" in held.sealed else ("read",)
        case PathPattern():
            return ("edit",)
        case FetchPattern() | McpPattern():
            return ()
        case NamedTool():
            return ("read",)
        case AnyCall():
            return ("read", "edit", "run")
