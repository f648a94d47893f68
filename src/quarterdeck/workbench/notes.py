"""Notes that a person keeps for agents: a line of the input that begins with ``#``, at the end of
the project's instructions file or of the person's own.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.config.places import Places

__all__ = [
    "LONGEST_NOTE",
    "NotePlace",
    "NoteScope",
    "NoteWriteError",
    "append_note",
    "find_note_places",
    "format_note",
]

NoteScope: TypeAlias = Literal["project", "personal"]
LONGEST_NOTE = 2_000
"""Characters of a note."""
_FILES = ("AGENTS.md", "CLAUDE.md")
"""As our own agent reads them; a new one gets the first name."""
_BULLETS = (b"- ", b"* ")


class NoteWriteError(QuarterdeckError):
    """A note could not be written; the message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePlace:
    """A file that can take a note."""

    scope: NoteScope
    path: Path
    root: Path
    """What it must be in, wherever links lead."""
    refusal: str = ""
    """Why it takes none; empty: it does."""


def find_note_places(
    places: "Places", environment: Mapping[str, str], directory: str
) -> list[NotePlace]:
    """The files for notes of a directory: its project's, then the person's own. Blocks.

    For a worktree of an agent it is the file of the project, not that of the worktree. A project
    that the person has not trusted takes none, if its files would act once it is trusted.

    Raises:
        QuarterdeckError: the list of trusted directories cannot be read.
    """
    from quarterdeck.fleet.permissions.workspace_trust import inspect_workspace_trust

    trust = inspect_workspace_trust(places, environment, Path(directory))
    root = Path(trust.root)
    found = next((root / name for name in _FILES if (root / name).is_file()), root / _FILES[0])
    refusal = "this project is not trusted; /trust first" if trust.state == "untrusted" else ""
    return [
        NotePlace(scope="project", path=found, root=root, refusal=refusal),
        NotePlace(scope="personal", path=places.config / _FILES[0], root=places.config),
    ]


def format_note(words: str) -> str:
    """The line that is written for a note."""
    return f"- {' '.join(words.split())}"


def append_note(place: NotePlace, words: str) -> str:
    """Put a note at the end of a file; returns the line. Blocks.

    One write to the end of the file: nothing that others write at the same time is lost.

    Raises:
        NoteWriteError: it is too long, the file leads out of its root, or it cannot be written.
    """
    line = format_note(words)
    if len(line) > LONGEST_NOTE:
        raise NoteWriteError(f"a note has at most {LONGEST_NOTE:,} characters; put it in a file")
    path = Path(os.path.realpath(place.path))
    if not path.is_relative_to(os.path.realpath(place.root)):
        raise NoteWriteError(f"{str(place.path)!r} is a link that leads out of {str(place.root)!r}")
    try:
        place.root.mkdir(parents=True, exist_ok=True)
        _append(path, line.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise NoteWriteError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    return line


def _append(path: Path, line: bytes) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o644), "rb+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 4_096))
        end = file.read(4_096) or b""
        newline = b"\r\n" if b"\r\n" in end else b"\n"
        before = b"" if not end or end.endswith(b"\n") else newline
        last = end.rstrip(b"\r\n").rpartition(b"\n")[2].lstrip()
        if last and not last.startswith(_BULLETS):
            before += newline  # a list begins after an empty line
        file.write(before + line + newline)
