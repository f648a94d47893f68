"""The session files of vendors: which belong to a session, and where they go on another machine.

Only files that are plain and mean something by themselves are taken. A place on this machine is
always computed here, from the vendor, its id of the session and the directory; a name in a capsule
is matched against what it may be and is never used as a path by itself. Everything here blocks.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from quarterdeck.drivers.history.claude import slug_of
from quarterdeck.drivers.history.codex_files import rollout_lineage
from quarterdeck.drivers.history.history import AgentHomes
from quarterdeck.drivers.history.session import HistorySession

from .errors import CapsuleError

__all__ = ["CARRIED", "NOT_CARRIED", "VendorFile", "VendorFilesError", "VendorHomes"]

_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
_PLAIN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}"
_FORMS: Mapping[str, str] = {
    "claude": rf"{_ID}\.jsonl|{_ID}/(?:[a-z][a-z-]{{0,40}}/)?{_PLAIN}\.(?:jsonl|json|txt)",
    "codex": r"(?:sessions/\d{4}/\d\d/\d\d|archived_sessions)/"
    r"rollout-[0-9A-Za-z_-]{10,200}\.(?:jsonl|json|jsonl\.zst)",
    "pi": rf"{_PLAIN}\.jsonl",
    "qwen": rf"{_ID}\.jsonl",
}
"""What the files of a session may be called, by agent."""
CARRIED = tuple(_FORMS)
"""Agents whose session files come along."""
NOT_CARRIED: Mapping[str, str] = {
    "gemini": "its session files mean something only with its own list of projects",
    "goose": "it keeps all sessions in one database",
    "kimi": "its session files mean something only with its own list of directories",
    "native": "its sessions are in the log",
    "opencode": "it keeps all sessions in one database",
    "vibe": "its session files mean something only with its own index",
}
"""Why those of others do not."""
_SLUG = 200
_MOST = 2_000


class VendorFilesError(CapsuleError):
    """Files of a vendor cannot be taken or placed; the message says why."""


class VendorFile(Struct, frozen=True, kw_only=True):
    """A file of a session."""

    name: str
    path: Path


class VendorHomes:
    """Where the vendors keep their sessions on this machine."""

    def __init__(self, homes: AgentHomes) -> None:
        self._homes = homes

    def find_files(self, past: HistorySession) -> list[VendorFile]:
        """The files of a session, the main one first.

        Raises:
            VendorFilesError: they are not such as can be taken.
        """
        found = list(self._files(past))[: _MOST + 1]
        if len(found) > _MOST:
            raise VendorFilesError(f"it has more than {_MOST:,} files")
        if odd := [one.name for one in found if not _is_expected(past.agent, one.name)]:
            raise VendorFilesError(f"the file {odd[0]!r} is not of a form that is known")
        return found

    def place(self, agent: str, name: str, cwd: str) -> Path:
        """Where a file of a session in a directory belongs.

        Raises:
            VendorFilesError: it has no place here.
        """
        if agent not in _FORMS or not _is_expected(agent, name):
            raise VendorFilesError(f"{name!r} is not a session file of {agent} that is known")
        homes, slug = self._homes, slug_of(cwd)
        if agent != "codex" and len(slug) > _SLUG:
            raise VendorFilesError(f"the directory {cwd!r} has too long a name for {agent}")
        match agent:
            case "claude":
                return homes.claude / "projects" / slug / name
            case "qwen":
                return homes.qwen / "projects" / slug / "chats" / name
            case "pi":
                return homes.pi / "sessions" / f"--{_pi_slug(cwd)}--" / name
            case _:
                return homes.codex / name

    def _files(self, past: HistorySession) -> Iterator[VendorFile]:
        path = Path(past.path)
        if past.agent == "codex":
            pieces, missing = rollout_lineage(self._homes.codex, path)
            if missing is not None:
                raise VendorFilesError(f"it goes on from {missing!r}, which is not there")
            for piece in dict.fromkeys(piece.path for piece in reversed(pieces)):
                yield VendorFile(name=_below(piece, self._homes.codex), path=piece)
            return
        yield VendorFile(name=path.name, path=path)
        if past.agent == "claude":
            for file in sorted(path.with_suffix("").rglob("*")):
                if file.is_file() and not file.is_symlink():
                    yield VendorFile(name=_below(file, path.parent), path=file)


def _below(path: Path, top: Path) -> str:
    try:
        return path.relative_to(top).as_posix()
    except ValueError:
        raise VendorFilesError(f"{str(path)!r} is not below {str(top)!r}") from None


def _pi_slug(cwd: str) -> str:
    return re.sub(r"[/\\:]", "-", cwd.lstrip("/\\"))


def _is_expected(agent: str, name: str) -> bool:
    form = _FORMS.get(agent)
    return form is not None and re.fullmatch(form, name, re.ASCII) is not None
