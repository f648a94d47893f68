"""Single lines around the transcript: the agent, its queue, its trouble, and the status of
everything.
"""

import re
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from quarterdeck.wire.event_text import describe_content

from ..feed import HostState
from ..rendering import glyphs
from ..rendering.agent_rows import STATE_ROLES, draw_context, format_money
from ..rendering.lines import Line, Span, clip, flow, plain, width_of, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..stores.roster import RosterStore, state_symbol
from .lines_view import LinesView

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.wire.clock import WallClock
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext
    from ..stores.discovery import DiscoveredAgent

__all__ = [
    "AgentBar",
    "QueueBar",
    "StatusBar",
    "Trouble",
    "TroubleBar",
    "TroubleKind",
    "TroubleRemedy",
    "diagnose_agent",
    "trouble_lines",
]

TroubleKind: TypeAlias = Literal[
    "missing", "key", "login", "session", "version", "crash", "turn", "ended"
]
"""``turn``: it is there, but its last turn failed. ``ended``: it was ended in good order."""


class TroubleRemedy(Struct, frozen=True):
    """A key or command, and what it does."""

    key: str
    words: str


class Trouble(Struct, frozen=True, kw_only=True):
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
        agent: as the fleet reported it.
        found: the same kind of agent on this machine, if someone looked.
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
    for kind, sign in _SIGNS:  # compiled when something went wrong, and then kept
        if re.search(sign, reason, re.IGNORECASE) and (kind != "missing" or not agent.is_live):
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


_HOST_WORDS: dict[HostState, tuple[str, str]] = {
    "connecting": ("host: connecting", "warning"),
    "connected": ("", "faint"),
    "lost": ("host: lost, reconnecting", "bad"),
    "failed": ("host: unusable", "bad"),
}
_COUNTED = ("running", "starting", "failed")
"""States that the last line counts, after those who need a person."""
_SHOWN_QUEUE = 3


class AgentBar(LinesView):
    """Which agent is shown."""

    agent: "AgentInfo | None" = None

    def show(self, agent: "AgentInfo | None") -> None:
        """Show another agent, or the same as it is now."""
        if agent != self.agent:
            self.agent = agent
            self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        agent = self.agent
        if agent is None:
            return [(("no agent", "faint"),)]
        role = STATE_ROLES.get(agent.state_word, "text")
        facts = [agent.agent, agent.model, agent.mode, *_work_facts(agent)]
        rest = " · ".join(sanitize_line(fact, 80) for fact in facts if fact)
        line: Line = (
            (sanitize_line(agent.name, 60), "strong"),
            (f" {state_symbol(agent)} {agent.state_word}", role),
            (f"  {rest}", "faint"),
        )
        bar = f"ctx {draw_context(agent)}" if agent.context and agent.context.size else ""
        room = width - width_of(line) - len(bar)
        if bar and room >= 2:
            line = (*line, (" " * room + bar, "faint"))
        return [clip(line, width)]


def _work_facts(agent: "AgentInfo") -> list[str]:
    """Where it works: its branch and what it changed there, or its directory."""
    tree, counts = agent.worktree, agent.changes
    if tree is None:
        return [agent.cwd]
    facts = [f"{glyphs.BRANCH} {tree.branch}" if tree.branch else tree.path]
    if counts is not None and counts.files:
        facts.append(f"+{counts.added} {glyphs.MINUS}{counts.removed}")
    return facts


class QueueBar(LinesView):
    """The prompts that wait for their turn; hidden while there is none."""

    agent: "AgentInfo | None" = None

    def show(self, agent: "AgentInfo | None") -> None:
        """Show the queue of an agent."""
        self.agent = agent
        self.display = bool(agent and agent.queue)
        self.styles.height = min(len(agent.queue), _SHOWN_QUEUE) if agent else 0
        self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        queue = self.agent.queue if self.agent else ()
        lines = [
            clip(
                (
                    (f"{glyphs.CUT} queued: ", "faint"),
                    (sanitize_line(" ".join(map(describe_content, q.content))), "text"),
                ),
                width,
            )
            for q in queue
        ]
        if len(lines) > _SHOWN_QUEUE:
            left = len(lines) - _SHOWN_QUEUE + 1
            lines[_SHOWN_QUEUE - 1 :] = [((f"{glyphs.CUT} and {left} more queued", "faint"),)]
        return lines


class StatusBar(LinesView):
    """Who needs a person, who works, what it costs; what is wrong; and the keys that help on.

    Args:
        roster: the agents.
        clock: tells the time, in microseconds.
        remote: the host, if it is on another machine.
    """

    def __init__(
        self,
        roster: RosterStore,
        clock: "WallClock",
        *,
        remote: str | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._remote = remote
        self._roster = roster
        self._clock = clock
        self._host: HostState = "connecting"
        self._is_untrusted = False
        self._unwatch: Callable[[], None] = lambda: None

    def on_mount(self) -> None:
        """Follow the store."""
        self._unwatch = self._roster.watch(self.update)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def show_host(self, state: HostState) -> None:
        """Tell how the way to the host is."""
        self._host = state
        self.update()

    def show_trust(self, is_untrusted: bool) -> None:
        """Tell that the workspace has files which do nothing until it is trusted."""
        if is_untrusted is not self._is_untrusted:
            self._is_untrusted = is_untrusted
            self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        totals = self._roster.totals(self._clock())
        facts: list[Span] = []
        if self._remote is not None:
            facts.append((f"on {sanitize_line(self._remote, 40)}", "strong"))
        needing = totals.words.get("needs you", 0)
        if needing:
            facts.append((f"{needing} need{'s' * (needing == 1)} you", "asking"))
        counts = ((word, totals.words.get(word)) for word in _COUNTED)
        facts += [(f"{number} {word}", STATE_ROLES[word]) for word, number in counts if number]
        if totals.cost:
            when = "today" if totals.is_today else "in all"
            facts.append((f"{format_money(totals.cost, totals.currency)} {when}", "faint"))
        problem = self._roster.status.problem if self._roster.status else None
        if problem:
            facts.append((f"cannot write the log: {sanitize_line(problem, 80)}", "bad"))
        if _HOST_WORDS[self._host][0]:
            facts.append(_HOST_WORDS[self._host])
        if self._is_untrusted:
            facts.append(("untrusted: /trust", "warning"))
        spans: list[Span] = [(" ", "text")]
        for fact in facts:
            spans += [(" · ", "faint"), fact] if len(spans) > 1 else [fact]
        return [clip((*spans, *_key_hints(width - width_of(tuple(spans)), needing)), width)]


_KEY_HINTS = (("f1", "help"), ("ctrl+p", "commands"), ("ctrl+q", "quit"))
_ASKED_HINTS = (("ctrl+g", "answer"), ("ctrl+n", "next"))


def _key_hints(room: int, needing: int) -> list[Span]:
    """As many keys as there is room for, at the right; help is the last to go."""
    hints = [*(_ASKED_HINTS if needing else ()), *_KEY_HINTS]
    while hints:
        words = [f"{key} {what}" for key, what in hints]
        size = sum(map(len, words)) + 3 * (len(words) - 1) + 1
        if size + 2 <= room:
            break
        hints.remove(next((one for one in reversed(hints) if one != _KEY_HINTS[0]), hints[0]))
    else:
        return []
    spans: list[Span] = [(" " * (room - size), "text")]
    for at, (key, what) in enumerate(hints):
        spans += [(" · ", "faint")] if at else []
        spans += [(key, "key"), (f" {what}", "faint")]
    return spans


_REASON = 4
"""Lines of the reason that are shown; the transcript has all of it."""


class TroubleBar(LinesView):
    """Tells the trouble of one agent; hidden while there is none.

    Args:
        context: the agents, and what was found on this machine.
        find_session: the agent, as it is when someone looks.
    """

    HAS_KEYS = True

    def __init__(
        self, context: "WorkbenchContext", find_session: "Callable[[], SessionId | None]"
    ) -> None:
        super().__init__(classes="trouble")
        self._app_context = context
        self._find_session = find_session
        self._trouble: Trouble | None = None
        self._stops: list[Callable[[], None]] = []

    def on_mount(self) -> None:
        """Follow the agents."""
        self.display = False
        self._stops = [
            self._app_context.watch(self.check),
            self._app_context.roster.watch(self.check),
        ]
        self.check()

    def on_unmount(self) -> None:
        """Let go of the stores."""
        for stop in self._stops:
            stop()

    def check(self) -> None:
        """Find out anew what is wrong."""
        agent = self._app_context.roster.find(self._find_session())
        found = self._app_context.discovery.found
        kind = found.agent(agent.agent) if found is not None and agent is not None else None
        trouble = diagnose_agent(agent, kind) if agent is not None else None
        if trouble != self._trouble:
            self._trouble = trouble
            self.display = trouble is not None
            self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        if self._trouble is None:
            return []
        lines = trouble_lines(self._trouble, width)
        self.styles.height = len(lines) + self.gutter.height
        return lines


def trouble_lines(trouble: Trouble, width: int) -> list[Line]:
    """What happened, why, and what can be done, in as few lines as it takes."""
    is_calm = trouble.kind == "ended"
    sign = f"{glyphs.STOPPED if is_calm else glyphs.FAILED} "
    lines = wrap(
        plain(sign + sanitize_line(trouble.title, 200), "faint" if is_calm else "bad"), width
    )
    if trouble.reason:
        reason: list[Line] = []
        for part in sanitize_text(trouble.reason).split("\n")[:_REASON]:
            reason += wrap(plain(part, "text"), width)
        lines += reason[:_REASON]
    offers = [
        ((offer.key, "key"), (f" {sanitize_line(offer.words, 200)}", "text"))
        for offer in trouble.offers
    ]
    return [*lines, *flow(offers, width)]
