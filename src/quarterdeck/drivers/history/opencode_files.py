"""OpenCode before its database: a file for each session, message and part.

At last all were below ``storage``; before, each project had a ``project/<name>/storage`` of its
own, which was copied over and left. The oldest messages hold their parts, the very oldest in a form
of their own.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ..pipe.told import as_list, as_map, as_text
from .files import Budget, Found, found_files, found_folders, microseconds, read_json
from .opencode_stores import Entry
from .past import PastSession, Tally

__all__ = ["Files", "modern"]

_SESSION_FILE = 65_536
_ENDS = {"result": "completed"}


class Files:
    """Sessions in files."""

    def __init__(self, home: Path) -> None:
        self._storage = home / "storage"
        self._older = [
            project / "storage" / "session" for project in sorted(found_folders(home / "project"))
        ]

    def sessions(self, budget: Budget) -> Iterator[PastSession]:
        """See ``Store``."""
        folders = [*found_folders(self._storage / "session"), *(o / "info" for o in self._older)]
        found = [file for folder in folders for file in found_files(folder, _is_json)]
        known: set[str] = set()
        for file in sorted(found, key=lambda one: one.changed, reverse=True):
            past = self._past(file, budget)
            if past is not None and past.id not in known:
                known.add(past.id)
                yield past

    def messages(self, session: str, tally: Tally) -> Iterator[Entry]:
        """See ``Store``."""
        for one in _read(self._messages(session), tally):
            yield Entry(one.id, modern(one.data))

    def parts(self, session: str, message: str, tally: Tally) -> Iterator[Entry]:
        """See ``Store``."""
        if _is_plain(session) and _is_plain(message):
            older = (one / "part" / session / message for one in self._older)
            yield from _read(_first(self._storage / "part" / message, *older), tally)

    def first_words(self, session: str, budget: Budget) -> str:
        """See ``Store``."""
        for file in self._messages(session)[:1]:
            first = modern(as_map(read_json(file.path, budget, most=_SESSION_FILE)))
            parts = [as_map(part) for part in as_list(first.get("parts"))]
            parts = parts or [one.data for one in self.parts(session, file.path.stem, Tally())]
            return next((said for part in parts if (said := as_text(part.get("text")))), "")
        return ""

    def _past(self, file: Found, budget: Budget) -> PastSession | None:
        told = as_map(read_json(file.path, budget, most=_SESSION_FILE))
        id_, time = as_text(told.get("id")), as_map(told.get("time"))
        if not _is_plain(id_) or told.get("parentID"):
            return None
        return PastSession(
            agent="opencode",
            id=id_,
            path=str(file.path),
            cwd=as_text(told.get("directory")) or self._cwd(id_, budget),
            title=as_text(told.get("title")) or None,
            started=microseconds(time.get("created")) or file.changed,
            updated=microseconds(time.get("updated")) or file.changed,
            version=as_text(told.get("version")) or None,
        )

    def _messages(self, session: str) -> list[Found]:
        if not _is_plain(session):
            return []
        older = (one / "message" / session for one in self._older)
        return _first(self._storage / "message" / session, *older)

    def _cwd(self, session: str, budget: Budget) -> str | None:
        """Where a session worked, told by an answer in it: older files do not say."""
        for file in self._messages(session)[:8]:
            told = modern(as_map(read_json(file.path, budget, most=_SESSION_FILE)))
            if cwd := as_text(as_map(told.get("path")).get("cwd")):
                return cwd
        return None


def modern(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of the oldest form as the later ones are, its parts in it; any other as it is."""
    beside = as_map(message.get("metadata"))
    if not beside or "parts" not in message:
        return message
    parts = (_part(as_map(part), as_map(beside.get("tool"))) for part in as_list(message["parts"]))
    return {
        "id": message.get("id"),
        "role": message.get("role"),
        "time": beside.get("time"),
        "error": beside.get("error"),
        **as_map(beside.get("assistant")),
        "parts": list(parts),
    }


def _part(part: Mapping[str, Any], told: Mapping[str, Any]) -> Mapping[str, Any]:
    call = as_map(part.get("toolInvocation"))
    if not call:
        return part
    about = as_map(told.get(as_text(call.get("toolCallId"))))
    return {
        "type": "tool",
        "tool": call.get("toolName"),
        "callID": call.get("toolCallId"),
        "state": {
            "status": _ENDS.get(as_text(call.get("state")), "running"),
            "input": call.get("args"),
            "output": call.get("result"),
            "title": about.get("title"),
            "time": about.get("time"),
            "metadata": about,
        },
    }


def _is_plain(name: str) -> bool:
    """Whether a name is one step of a path."""
    return bool(name) and all(letter.isalnum() or letter in "_-" for letter in name)


def _is_json(name: str) -> bool:
    return name.endswith(".json")


def _first(*folders: Path) -> list[Found]:
    """The files of the first folder that has any, in order: their names are made of the time."""
    for folder in folders:
        if found := list(found_files(folder, _is_json)):
            return sorted(found, key=lambda one: one.path.name)
    return []


def _read(files: list[Found], tally: Tally) -> Iterator[Entry]:
    for file in files:
        tally.lines += 1
        value = read_json(file.path)
        if not isinstance(value, dict):
            tally.corrupt += 1
            continue
        yield Entry(file.path.stem, cast("Mapping[str, Any]", value))
