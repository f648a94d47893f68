"""Reading a screen: which state it shows, and what is asked."""

import re
from dataclasses import dataclass, field

from quarterdeck.wire.permissions import PermissionKind, PermissionOption
from quarterdeck.wire.toolcalls import ToolKind

from ..screen import Screen
from .knowledge import Dialog, Knowledge, State

__all__ = ["Choice", "Reader", "Reading", "Request"]

_MOST_ROWS = 80
"""Rows from the end that a pattern may span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One option of a request, and the keys that choose it."""

    option: PermissionOption
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an agent asks leave for."""

    title: str
    subject: str
    detail: str
    kind: ToolKind
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a screen shows."""

    state: State
    chrome: int = 0
    """Rows at its end that the agent draws around its prompt."""
    rule: Dialog | None = None
    request: Request | None = None
    shown: str = field(default="", compare=False, repr=False)
    """The text of those rows."""


class Reader:
    """Reads the screens of one agent."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._rules = [
            (
                rule,
                re.compile(rf"(?:{rule.screen})\Z", re.MULTILINE) if rule.screen else None,
                re.compile(rule.title) if rule.title else None,
                re.compile(rule.unless, re.MULTILINE) if rule.unless else None,
            )
            for rule in knowledge.states
        ]
        asking = knowledge.asking
        self._option = re.compile(asking.option, re.MULTILINE) if asking else None

    def read(self, screen: Screen) -> Reading:
        """Which state the screen shows now; ``unknown`` if none that is known."""
        rows = [row.text for row in screen.rows()]
        while rows and not rows[-1]:
            rows.pop()
        return self.read_rows(rows, screen.title)

    def read_rows(self, rows: list[str], title: str = "") -> Reading:
        """The same for rows without blank ones at their end."""
        text = "\n".join(rows[-_MOST_ROWS:])
        for rule, pattern, titled, unless in self._rules:
            if titled is not None and not titled.search(title):
                continue
            found = pattern.search(text) if pattern is not None else None
            if pattern is not None and found is None:
                continue
            shown = text[found.start() :] if found is not None else ""
            if unless is not None and unless.search(shown):
                continue
            request = self._request(found) if found and rule.state == "asking" else None
            chrome = shown.count("\n") + 1 if found is not None else 0
            return Reading(state=rule.state, chrome=chrome, rule=rule, request=request, shown=shown)
        return Reading(state="unknown")

    def _request(self, found: "re.Match[str]") -> Request | None:
        asking = self.knowledge.asking
        if asking is None or self._option is None:
            return None
        groups = found.groupdict()
        title = _squeezed(groups.get("title") or "")
        subject = _squeezed(groups.get("subject") or "")
        detail = _lines(groups.get("detail") or "")
        seen = list(self._option.finditer(groups.get("options") or ""))
        at = next((n for n, one in enumerate(seen) if one.groupdict().get("chosen")), asking.first)
        choices = tuple(self._choice(one, number, at) for number, one in enumerate(seen))
        text = f"{title}\n{subject}\n{detail}"
        kinds: list[ToolKind] = [
            kind for kind, like in asking.tools.items() if re.search(like, text, re.MULTILINE)
        ]
        kind: ToolKind = kinds[0] if kinds else "other"
        return Request(title=title, subject=subject, detail=detail, kind=kind, choices=choices)

    def _choice(self, seen: "re.Match[str]", number: int, at: int) -> Choice:
        asking = self.knowledge.asking
        assert asking is not None
        groups = seen.groupdict()
        name = _squeezed(groups["name"])
        if asking.choose == "key" and groups.get("key"):
            keys: tuple[str, ...] = (groups["key"],)
        else:
            before, after = asking.arrows
            steps = (after,) * (number - at) if number > at else (before,) * (at - number)
            keys = (*steps, "enter")
        option = PermissionOption(option_id=str(number + 1), name=name, kind=self._kind(name))
        return Choice(option=option, keys=keys)

    def _kind(self, name: str) -> PermissionKind | str:
        asking = self.knowledge.asking
        assert asking is not None
        return next((kind for kind, like in asking.kinds.items() if re.search(like, name)), "other")


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _lines(text: str) -> str:
    """Lines without the frames around them."""
    stripped = (line.strip(" │┃╭╮╰╯─╌") for line in text.splitlines())
    return "\n".join(line for line in stripped if line)
