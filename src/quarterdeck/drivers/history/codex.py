"""Codex: ``sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``, and ``archived_sessions``.

Three forms: since 0.32 each line is ``{timestamp, type, payload}``; before, the first line was the
session itself and each other an item; the oldest were one object in ``rollout-….json``. Files that
Codex has compressed need a Python that can read Zstandard.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..pipe.told import as_list, as_map, as_text
from .codex_items import ItemReading, said_by_person
from .files import (
    Budget,
    Found,
    decode,
    found_files,
    head_lines,
    is_same_place,
    json_lines,
    microseconds,
    one_title,
    open_plain,
    read_json,
)
from .past import PastEvent, PastSession, Tally
from .scanning import may_have
from .zstandard import open_zstd

__all__ = ["CodexHistory"]

_NAME = re.compile(
    r"rollout-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)-([0-9a-fA-F-]{36})\.(jsonl|json|jsonl\.zst)"
)
_OLDEST_NAME = re.compile(r"rollout-(\d{4}-\d\d-\d\d)-([0-9a-fA-F-]{36})\.json")
_CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')
_VERSION = re.compile(rb'"cli_version":\s*("(?:[^"\\]|\\.)*")')
_SUB_AGENT = re.compile(rb'"source":\s*\{\s*"subagent"')
_TOLD_CWD = re.compile(r"<cwd>([^<]+)</cwd>|Current working directory: ([^\n]+)")
_WRAPPED = re.compile(rb'"payload":')
_META = 1_024
"""Bytes of a file that tell where it worked; what follows is mostly instructions."""


class CodexHistory:
    """Reads the sessions of Codex below its own directory."""

    agent = "codex"

    def __init__(self, home: Path) -> None:
        self._home = home

    def list(self, directory: Path | None, limit: int | None, budget: Budget) -> list[PastSession]:
        """See ``HistoryReader``."""
        found = sorted(self._files(), key=lambda one: one.changed, reverse=True)
        sessions: list[PastSession] = []
        for file in found:
            if limit is not None and len(sessions) >= limit:
                break
            past = _past(file, directory, budget)
            if past is not None:
                sessions.append(past)
        return [_titled(past, budget) for past in sessions]

    def read(self, past: PastSession, tally: Tally) -> Iterator[PastEvent]:
        """See ``HistoryReader``."""
        reading = ItemReading(past.id, tally)
        for entry in _entries(Path(past.path), tally):
            yield from reading.entry(entry)
        yield from reading.finish()

    def has_words(self, past: PastSession, words: tuple[str, ...], budget: Budget) -> bool:
        """See ``HistoryReader``."""
        return past.path.endswith(".zst") or may_have(Path(past.path), words, budget)

    def _files(self) -> Iterator[Found]:
        yield from found_files(self._home / "archived_sessions", _is_rollout)
        sessions = self._home / "sessions"
        yield from found_files(sessions, _is_rollout)
        for pattern in ("*", "*/*", "*/*/*"):
            for folder in sessions.glob(pattern):
                if folder.is_dir():
                    yield from found_files(folder, _is_rollout)


def _is_rollout(name: str) -> bool:
    return bool(_NAME.fullmatch(name) or _OLDEST_NAME.fullmatch(name))


def _past(file: Found, directory: Path | None, budget: Budget) -> PastSession | None:
    """The facts of a session but the title; None if it is of another directory or no person's."""
    named = _NAME.fullmatch(file.path.name) or _OLDEST_NAME.fullmatch(file.path.name)
    assert named is not None
    is_packed = file.path.name.endswith(".zst")
    head = b"" if is_packed else b"\n".join(head_lines(file.path, budget, most=_META))
    if _SUB_AGENT.search(head):
        return None
    cwd = _quoted(_CWD, head)
    if cwd is None and not is_packed and not _WRAPPED.search(head):
        # Only forms that are out of use for long do not tell it at the beginning.
        cwd, _ = _look(head_lines(file.path, budget, first=8_192), None)
    if directory is not None and not is_same_place(cwd, directory):
        return None
    day, _, clock = named[1].partition("T")
    return PastSession(
        agent="codex",
        id=named[2],
        path=str(file.path),
        cwd=cwd,
        started=microseconds(f"{day}T{clock.replace('-', ':')}" if clock else day),
        updated=file.changed,
        size=file.size,
        version=_quoted(_VERSION, head),
        archived=file.path.parent.name == "archived_sessions",
    )


def _titled(past: PastSession, budget: Budget) -> PastSession:
    """The same with a title; what comes before the first prompt is long."""
    path = Path(past.path)
    if path.suffix == ".zst":
        return past
    if path.suffix == ".json":
        items = as_list(as_map(read_json(path, budget, most=1 << 20)).get("items"))
        said = next((one for item in items if (one := said_by_person(as_map(item)))), None)
    else:
        _, said = _look(head_lines(path, budget, first=40_960, most=131_072), past.cwd)
    return replace(past, title=one_title(said)) if said else past


def _look(lines: Iterable[bytes], cwd: str | None) -> tuple[str | None, str | None]:
    """Where it worked and what a person said first, as far as the head tells."""
    for line in lines:
        item = as_map(decode(line))
        item = as_map(item.get("payload")) or item
        if cwd is None and (told := _TOLD_CWD.search(_texts(item))):
            cwd = (told[1] or told[2]).strip()
        if title := said_by_person(item):
            return cwd, title
    return cwd, None


def _texts(item: Mapping[str, Any]) -> str:
    return "\n".join(as_text(as_map(one).get("text")) for one in as_list(item.get("content")))


def _quoted(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    found = pattern.search(head)
    return as_text(decode(found[1])) or None if found else None


def _entries(path: Path, tally: Tally) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".json":
        whole = as_map(read_json(path))
        tally.corrupt += not whole
        yield from map(as_map, as_list(whole.get("items")))
        return
    opened = open_zstd(path) if path.suffix == ".zst" else open_plain(path)
    with opened as file:
        yield from json_lines(file, tally)
