"""Reads an agent's terminal: its state, its request and what that is about, the next change.

A screen breaks long lines and leaves parts out. A path or a command that may be another than the
one that is shown is not certain, and what is not certain no rule and no mode may allow.
"""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from quarterdeck.terminal.emulator import Color, Emulator, GridRow
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.wire.errors import LinkBrokenError, LinkEndedError, LinkError
from quarterdeck.wire.permissions import PermissionKind, PermissionOption
from quarterdeck.wire.tool_calls import ToolKind

from .patterns import RequestPatterns, StatePattern, TerminalPatterns, TerminalState

__all__ = [
    "RequestChoice",
    "TerminalReader",
    "TerminalReading",
    "TerminalRequest",
    "TerminalWatcher",
    "is_certain",
    "named_files",
]

_AROUND = 16
"""Columns that frames and margins take at the most."""


def named_files(asking: RequestPatterns, shown: str) -> tuple[str, ...]:
    """The files that a request to edit names; none if one of them is not shown for certain.

    ``shown``: what the patterns of ``asking.files`` are for.
    """
    for pattern in asking.files:
        found = [one["path"].strip(" ") for one in re.finditer(pattern, shown, re.MULTILINE)]
        if found:
            whole = [path for path in found if path and "\n" not in path]
            is_cut = any(re.search(asking.hidden, path) for path in whole)
            return () if is_cut or len(whole) < len(found) else tuple(whole)
    return ()


def is_certain(asking: RequestPatterns, command: str, columns: int) -> bool:
    """Whether a command is there, whole, and its lines are lines of it and not of the screen."""
    if not command.strip() or re.search(asking.hidden, command):
        return False
    width = columns - _AROUND
    return not any(_may_be_one(above, below, width) for above, below in pairwise(_rows(command)))


def _rows(command: str) -> Sequence[str]:
    return [line for line in command.split("\n") if line.strip()]


def _may_be_one(above: str, below: str, width: int) -> bool:
    """Whether the screen may have broken a line there: the next word had no room."""
    return _cells(above) + 1 + _cells(below.split()[0]) > width


def _cells(text: str) -> int:
    return sum(1 if char.isascii() else 2 for char in text)


_MOST_ROWS = 80
"""Rows from the end that a pattern may span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChoice:
    """One option of a request, and the keys that choose it."""

    option: PermissionOption
    keys: tuple[str, ...] = field(compare=False)
    """They depend on which option is marked now; the request is the same whichever is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalRequest:
    """What an agent asks permission for."""

    title: str
    subject: str
    detail: str
    kind: ToolKind
    files: tuple[str, ...] = ()
    """Of an edit, all of them; empty: not known for certain."""
    is_certain: bool = True
    """Of a command: it is the one that is shown, no part is hidden and no line broken."""
    choices: tuple[RequestChoice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReading:
    """What a screen shows."""

    state: TerminalState
    chrome: int = 0
    """Rows at its end that the agent draws around its prompt."""
    rule: StatePattern | None = None
    request: TerminalRequest | None = None
    shown: str = field(default="", compare=False, repr=False)
    """The text of those rows."""


class TerminalReader:
    """Reads the screens of one agent."""

    def __init__(self, knowledge: TerminalPatterns) -> None:
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

    def read(self, screen: Emulator) -> TerminalReading:
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
            return TerminalReading(
                state=rule.state, chrome=chrome, rule=rule, request=request, shown=shown
            )
        return TerminalReading(state="unknown")

    def _request(self, found: "re.Match[str]", rows: Sequence[GridRow]) -> TerminalRequest | None:
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
        shown = "\f".join(groups.get(name) or "" for name in ("title", "subject", "detail"))
        return TerminalRequest(
            title=title,
            subject=subject,
            detail=detail,
            kind=kind,
            files=named_files(asking, shown) if kind == "edit" else (),
            is_certain=is_certain(asking, detail, self.knowledge.columns),
            choices=choices,
        )

    def _choice(self, seen: "re.Match[str]", number: int, at: int) -> RequestChoice:
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
        return RequestChoice(option=option, keys=keys)

    def _kind(self, name: str) -> PermissionKind | str:
        asking = self.knowledge.asking
        assert asking is not None
        return next((kind for kind, like in asking.kinds.items() if re.search(like, name)), "other")


def _lit(names: Sequence[str], rows: Sequence[GridRow], otherwise: int) -> int:
    """Which option has another background than all others."""
    behind = [_background(name, rows) for name in names]
    alone = [number for number, one in enumerate(behind) if behind.count(one) == 1]
    return alone[0] if len(alone) == 1 and len(names) > 2 else otherwise


def _background(name: str, rows: Sequence[GridRow]) -> Color:
    spans = (span for row in reversed(rows) for span in row.spans)
    return next((span.style.background for span in spans if span.text.strip() == name), None)


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _lines(text: str) -> str:
    """Lines without the frames around them."""
    stripped = (line.strip(" │┃╭╮╰╯─╌") for line in text.splitlines())
    return "\n".join(line for line in stripped if line)


_PAUSE = 0.03
"""Seconds between two looks: a screen that is being drawn is not read for each piece."""
_LONGEST_DRAWING = 0.5
"""Seconds after which a screen is read although its program has not marked it as drawn."""


class TerminalWatcher:
    """Reads one terminal's screen, at most some thirty times a second."""

    def __init__(self, terminal: HeadlessTerminal, reader: TerminalReader) -> None:
        self.terminal = terminal
        self._reader = reader
        self._revision = 0
        self._since = time.monotonic()
        self._sign: tuple[str, bool, int] = "", False, 0
        """What distinguishes states besides rows: title, whether it takes pastes, cursor."""
        self._whole_at = 0.0
        self.changes = 0
        """How often the screen was seen to change."""
        self._reading = TerminalReading(state="unknown")

    @property
    def now(self) -> TerminalReading:
        """What the screen shows."""
        self._look()
        return self._reading

    @property
    def calm(self) -> float:
        """Seconds since the screen changed last."""
        self._look()
        return time.monotonic() - self._since

    @property
    def is_drawing(self) -> bool:
        """It is in the middle of drawing, and has marked that, for not too long."""
        if not self.terminal.screen.modes.synchronized:
            self._whole_at = time.monotonic()
            return False
        return time.monotonic() - self._whole_at < _LONGEST_DRAWING

    def gone(self) -> LinkError:
        """How the program left, as an error; only once it has."""
        left = self.terminal.exit
        if left is not None and left.code == 0:
            return LinkEndedError("the agent has exited")
        text = f"the agent has exited: {left}" if left is not None else "the agent has exited"
        rows = [row.text for row in self.terminal.screen.rows() if row.text]
        return LinkBrokenError(
            text,
            exit_code=left.code if left else None,
            signal=left.signal if left else None,
            stderr="\n".join(rows[-10:]),
        )

    async def until(
        self, wanted: Callable[[TerminalReading], bool], within: float
    ) -> TerminalReading | None:
        """Wait for a reading; None if it did not come in time.

        Raises:
            LinkBrokenError, LinkEndedError: the program has left.
        """
        deadline = time.monotonic() + within
        while True:
            if wanted(self.now):
                return self.now
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            await self.step(min(left, 0.25))

    async def settled(self, calm: float, within: float) -> bool:
        """Wait until the screen did not change for a while. Raises as ``until``."""
        deadline = time.monotonic() + within
        while (still := self.calm) < calm:
            if time.monotonic() > deadline:
                return False
            await self.step(calm - still)
        return True

    async def step(self, longest: float) -> None:
        """Wait for a change, or so many seconds. Raises as ``until``."""
        if self.terminal.is_over:
            raise self.gone()
        try:
            async with asyncio.timeout(max(longest, _PAUSE)):
                await self.terminal.change()
        except TimeoutError:
            return
        await asyncio.sleep(_PAUSE)

    def _look(self) -> None:
        screen = self.terminal.screen
        if self.is_drawing:
            self._since = time.monotonic()  # what is seen now is the half of it
            return
        change = screen.changes(self._revision)
        sign = screen.title, screen.modes.bracketed_paste, screen.cursor.row
        if not change.rows and sign == self._sign:
            self._revision = change.revision
            return
        self._revision, self._sign = change.revision, sign
        self._since = time.monotonic()
        self.changes += 1
        self._reading = self._reader.read(screen)
