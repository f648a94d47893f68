"""Gemini CLI before it kept whole sessions: a project's ``logs.json`` has the prompts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quarterdeck.wire.content import text
from quarterdeck.wire.events import Notice

from ..pipe.told import as_list, as_map, as_text
from .files import Budget, microseconds, one_title, open_plain, read_json
from .past import PastEvent, PastSession, Tally
from .turns import Turns

__all__ = ["LOGS", "logged_sessions", "read_logged"]

LOGS = "logs.json"
_LISTED = 1 << 20
"""Bytes; a larger file is left out of a listing."""


def logged_sessions(
    project: Path, cwd: str | None, known: set[str], budget: Budget
) -> Iterator[PastSession]:
    """Sessions of which nothing but prompts is left; those that are known otherwise are not told.

    Those with commands for the program alone are left out.
    """
    path = project / LOGS
    prompts: dict[str, list[Mapping[str, Any]]] = {}
    for entry in map(as_map, as_list(read_json(path, budget, most=_LISTED))):
        id_ = as_text(entry.get("sessionId"))
        if id_ and id_ not in known and as_text(entry.get("message")):
            prompts.setdefault(id_, []).append(entry)
    for id_, entries in prompts.items():
        said = [as_text(one.get("message")) for one in entries]
        title = next((one for one in said if not one.startswith(("/", "?"))), None)
        times = [microseconds(one.get("timestamp")) for one in entries]
        if title is not None:
            yield PastSession(
                agent="gemini",
                id=id_,
                path=str(path),
                cwd=cwd,
                title=one_title(title),
                started=min(times),
                updated=max(times),
                messages=len(entries),
                can_resume=False,
            )


def read_logged(past: PastSession, tally: Tally) -> Iterator[PastEvent]:
    """The prompts of a session.

    Raises:
        HistoryUnreadable: the file cannot be opened.
    """
    with open_plain(Path(past.path)):
        pass  # to say why it cannot be opened
    whole = read_json(Path(past.path))
    tally.corrupt += not isinstance(whole, list)
    turns = Turns("gemini", past.id)
    told = Notice(title="Gemini kept the prompts of this session and nothing else")
    yield from turns.outside(told, past.started)
    for entry in map(as_map, as_list(whole)):
        said = as_text(entry.get("message"))
        if entry.get("sessionId") == past.id and said:
            tally.lines += 1
            name = str(entry.get("messageId", ""))
            yield from turns.prompt([text(said)], microseconds(entry.get("timestamp")), name)
    yield from turns.end()
