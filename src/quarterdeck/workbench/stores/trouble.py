"""What went wrong with an agent, and what a person can do about it."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo

    from .discovery import DiscoveredAgent

__all__ = ["Trouble", "TroubleKind", "TroubleRemedy", "diagnose_agent"]

TroubleKind: TypeAlias = Literal[
    "missing", "key", "login", "session", "version", "crash", "turn", "ended"
]
"""``turn``: it is there, but its last turn failed. ``ended``: it was ended in good order."""


@dataclass(frozen=True, slots=True)
class TroubleRemedy:
    """A key or command, and what it does."""

    key: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What to show below a transcript that does not go on by itself. All text is foreign."""

    kind: TroubleKind
    title: str
    reason: str = ""
    offers: tuple[TroubleRemedy, ...] = ()


# Agents are many and tell their troubles in prose; the first that fits counts.
_SIGNS: tuple[tuple[TroubleKind, str], ...] = (
    ("missing", r"no program '|command not found|is not installed"),
    ("key", r"no key for|set [A-Z][A-Z_]*_(API_)?(KEY|TOKEN)\b|no model (is )?(set|known|named)"),
    (
        "session",
        r"(no|unknown|invalid) (such )?(session|conversation|thread|rollout)"
        r"|(session|conversation|thread|rollout)\b.{0,80}(not found|unknown|not exist|is gone)",
    ),
    (
        "login",
        r"\blog(ged)?[ -]?in\b|\bsign(ed)? in\b|authenticat|unauthori[sz]ed|credential"
        r"|invalid.{0,12}api.?key|\b401\b",
    ),
    ("version", r"\b(protocol|version)\b.{0,60}\b(old|new|unsupported|needs?|other|wrong|speaks?)"),
)
_COMPILED: tuple[tuple[TroubleKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _SIGNS
)

_TITLES: dict[TroubleKind, str] = {
    "missing": "cannot start {name}: {title} is not installed",
    "key": "{name} has no model: no API key is set",
    "login": "{name} needs you to log in to {title}",
    "session": "{title} no longer has this session",
    "version": "{name} uses an incompatible version",
    "crash": "{name} stopped unexpectedly",
    "turn": "the last turn of {name} failed; the agent is still running",
    "ended": "{name} is not running",
}
_RETRY = TroubleRemedy("ctrl+r", "retry")
_FRESH = TroubleRemedy("/fresh", "start a new session")
_OTHER = TroubleRemedy("ctrl+t", "start another agent")
_DEMO = TroubleRemedy("f12", "run the demo, no API key needed")


def diagnose_agent(agent: "AgentInfo", found: "DiscoveredAgent | None") -> Trouble | None:
    """What is wrong with an agent; None: nothing, or it is for others to tell.

    Args:
        agent: as the fleet told it.
        found: the same kind of agent on this machine, if somebody looked.
    """
    if agent.state in ("starting", "idle", "running", "waiting") or agent.is_archived:
        return None
    if agent.is_live and agent.state != "failed":
        return None
    kind = _kind(agent, found)
    return Trouble(
        kind=kind,
        title=_TITLES[kind].format(name=agent.name, title=found.title if found else agent.agent),
        reason=(agent.reason or "").strip() if agent.state == "failed" else "",
        offers=_offers(kind, agent, found),
    )


def _kind(agent: "AgentInfo", found: "DiscoveredAgent | None") -> TroubleKind:
    if agent.state != "failed":
        return "ended"
    reason = agent.reason or ""
    for kind, sign in _COMPILED:
        if sign.search(reason) and (kind != "missing" or not agent.is_live):
            return kind
    if agent.is_live:
        return "turn"
    return "missing" if found is not None and not found.is_here else "crash"


def _offers(
    kind: TroubleKind, agent: "AgentInfo", found: "DiscoveredAgent | None"
) -> tuple[TroubleRemedy, ...]:
    install = found.install if found is not None else ""
    match kind:
        case "missing":
            get = (TroubleRemedy("/install", f"copy: {install}"),) if install else ()
            return (*get, _RETRY, _OTHER, TroubleRemedy("/doctor", "check the setup"))
        case "key":
            return (TroubleRemedy("/doctor", "show which keys are set"), _RETRY, _OTHER, _DEMO)
        case "login":
            chooses = found is not None and found.offers_logins
            how = "choose how to log in" if chooses else "show how to log in"
            return (TroubleRemedy("/login", how), _RETRY, _OTHER)
        case "session":
            return (_FRESH, _OTHER)
        case "version":
            get = (TroubleRemedy("/install", f"copy: {install}"),) if install else ()
            return (*get, _RETRY, _OTHER)
        case "turn":
            return (TroubleRemedy("ctrl+r", "resend the last prompt"), _FRESH, _OTHER)
        case "crash" | "ended":
            again = TroubleRemedy("ctrl+r", "resume it where it stopped")
            return (again, _FRESH, _OTHER) if agent.can_resume else (_FRESH, _OTHER)
