"""Past sessions as a person reads them in a plain terminal."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.wire.events import Event, Prompted, TurnEnded
from quarterdeck.wire.usage import TokenUsage

from .fleet.text import count, cut, literal, one_line, since, table

if TYPE_CHECKING:
    from quarterdeck.drivers.history.history import PastHit
    from quarterdeck.drivers.history.past import PastSession

__all__ = ["Account", "heading", "hit_line", "nothing", "rows", "short_ids"]

_SHORTEST = 8
"""Letters of an id at the least."""
_NO_SIZE, _NO_TIME = 60, 40
"""Columns of a terminal below which a list goes without."""


def rows(
    sessions: Sequence["PastSession"], now: int, width: int | None, *, is_anywhere: bool
) -> Iterator[str]:
    """A table of sessions; a terminal gets ids that are as long as they must be."""
    whole = [past.id for past in sessions]
    ids = whole if width is None else short_ids(whole)
    columns: dict[str, list[str]] = {
        "AGENT": [past.agent for past in sessions],
        "SESSION": ids,
        "CHANGED": [since(past.updated, now) for past in sessions],
        "SIZE": [_size(past.size) for past in sessions],
        "DIRECTORY": [past.cwd or "-" for past in sessions],
        "TITLE": [_title(past) for past in sessions],
    }
    left_out = {"DIRECTORY"} if not is_anywhere else set[str]()
    if width is not None and width < _NO_SIZE:
        left_out.add("SIZE")
    if width is not None and width < _NO_TIME:
        left_out.add("CHANGED")
    head = [name for name in columns if name not in left_out]
    return table(head, zip(*(columns[name] for name in head), strict=True), width)


def short_ids(ids: Sequence[str]) -> list[str]:
    """The beginnings that tell these ids from each other, in the same length."""
    length = _SHORTEST
    longest = max(map(len, ids), default=0)
    while length < longest and max(Counter(one[:length] for one in set(ids)).values()) > 1:
        length += 1
    return [one[:length] for one in ids]


def hit_line(hit: "PastHit", width: int | None) -> str:
    """A session that was found, and where."""
    line = f"{hit.past.agent} {literal(hit.past.id)}: {one_line(hit.snippet)}"
    return line if width is None else cut(line, width)


def nothing(where: Path | None, others: Iterable["PastSession"]) -> str:
    """What to say where there are none; ``others`` are those of every directory."""
    places = Counter(past.cwd for past in others)
    if where is None or not places:
        return "No sessions of other agents are on disk."
    told = f"No sessions of {literal(str(where))}"
    above = next((one for one in where.parents if str(one) in places), None)
    if above is not None:
        there = f"{places[str(above)]} of {literal(str(above))} above it"
        return f"{told}; {there}: quarterdeck history -C {_quoted(above)}"
    return f"{told}; --all lists {places.total()} of other directories."


def heading(past: "PastSession") -> str:
    """Whose session it is and where it worked."""
    began = datetime.fromtimestamp(past.started / 1_000_000).astimezone()
    parts = [f"{past.agent} {literal(past.id)}"]
    if past.cwd is not None:
        parts.append(f"in {one_line(past.cwd)}")
    if past.started:
        parts.append(f"began {began:%Y-%m-%d %H:%M}")
    if past.title is not None:
        parts.append(one_line(past.title))
    return "= " + ", ".join(parts)


class Account:
    """Counts what a session took."""

    def __init__(self) -> None:
        self._prompts = 0
        self._usage = TokenUsage()

    def take(self, event: Event) -> None:
        """Take the next event."""
        self._prompts += isinstance(event, Prompted)
        if isinstance(event, TurnEnded) and event.usage is not None:
            self._usage += event.usage

    def text(self) -> str:
        """What it comes to, in a line."""
        told = f"= {self._prompts} prompt{'s' * (self._prompts != 1)}"
        if not self._usage.total:
            return told
        return f"{told}, {count(self._usage.input)} tokens in, {count(self._usage.output)} out"


def _title(past: "PastSession") -> str:
    put_away = "(archived) " if past.archived else ""
    prompts = "" if past.can_resume else "(prompts alone) "
    return f"{put_away}{prompts}{past.title or '-'}"


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{count(size)}B"


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(literal(str(path)))
