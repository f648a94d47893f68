"""Reading a screen: which state it shows, and what is asked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from quarterdeck.wire.permissions import PermissionKind, PermissionOption
from quarterdeck.wire.toolcalls import ToolKind

from ..screen import Color, Row, Screen
from .knowledge import Dialog, Knowledge, State

__all__ = ["Choice", "Reader", "Reading", "Request"]

_MOST_ROWS = 80
"""Rows from the end that a pattern may span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One option of a request, and the keys that choose it."""

    option: PermissionOption
    keys: tuple[str, ...] = field(compare=False)
    """They depend on which option is marked now; the request is the same whichever is."""


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
        rows = list(screen.rows())
        while rows and not rows[-1].text:
            rows.pop()
        last = len(rows) - 1
        rows = rows[-_MOST_ROWS:]
        text = "\n".join(row.text for row in rows)
        title, pastes = screen.title, screen.modes.bracketed_paste
        for rule, pattern, titled, unless in self._rules:
            if titled is not None and not titled.search(title):
                continue
            if rule.pastes is not None and rule.pastes != pastes:
                continue
            found = pattern.search(text) if pattern is not None else None
            if pattern is not None and found is None:
                continue
            shown = text[found.start() :] if found is not None else ""
            if unless is not None and unless.search(shown):
                continue
            chrome = shown.count("\n") + 1 if found is not None else 0
            if rule.cursor is not None and rule.cursor != (
                last - chrome < screen.cursor.row <= last
            ):
                continue
            asks = found is not None and rule.state == "asking"
            request = self._request(found, rows[-chrome:]) if found and asks else None
            return Reading(state=rule.state, chrome=chrome, rule=rule, request=request, shown=shown)
        return Reading(state="unknown")

    def _request(self, found: "re.Match[str]", rows: Sequence[Row]) -> Request | None:
        asking = self.knowledge.asking
        if asking is None or self._option is None:
            return None
        groups = found.groupdict()
        title = _squeezed(groups.get("title") or "")
        subject = _squeezed(groups.get("subject") or "")
        detail = _lines(groups.get("detail") or "")
        seen = list(self._option.finditer(groups.get("options") or ""))
        marked = (n for n, one in enumerate(seen) if one.groupdict().get("chosen"))
        at = next(marked, _lit([one["name"] for one in seen], rows, asking.first))
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
            keys: tuple[str, ...] = (groups["key"], *asking.confirm)
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


def _lit(names: Sequence[str], rows: Sequence[Row], otherwise: int) -> int:
    """Which option has another background than all others."""
    behind = [_background(name, rows) for name in names]
    alone = [number for number, one in enumerate(behind) if behind.count(one) == 1]
    return alone[0] if len(alone) == 1 and len(names) > 2 else otherwise


def _background(name: str, rows: Sequence[Row]) -> Color:
    spans = (span for row in reversed(rows) for span in row.spans)
    return next((span.style.background for span in spans if span.text.strip() == name), None)


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _lines(text: str) -> str:
    """Lines without the frames around them."""
    stripped = (line.strip(" │┃╭╮╰╯─╌") for line in text.splitlines())
    return "\n".join(line for line in stripped if line)
