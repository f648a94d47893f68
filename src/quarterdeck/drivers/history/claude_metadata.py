"""The facts of a session of Claude Code, told by the beginning and the end of its file.

Beside ``<id>.jsonl`` there may be a directory ``<id>`` with the title that a person gave it and
whether it was put away.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..foreign_json import as_list, as_map, as_text
from .files import (
    FoundFile,
    ReadBudget,
    decode_json,
    head_lines,
    is_same_place,
    make_title,
    parse_time,
    read_json,
    tail_lines,
)
from .reader import HistorySession

__all__ = [
    "INTERRUPTED",
    "TITLES",
    "blocks_of",
    "is_slug_of",
    "prompt_text",
    "read_metadata",
    "slug_of",
    "with_title",
]

TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""Kinds of entries that tell a title, with the field that has it; the best comes first."""
INTERRUPTED = "[Request interrupted by user"
_COMMAND = re.compile(r"<command-name>\s*(/?[^<]*?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.S)
_OUTPUT = ("<local-command-", "<task-notification>", "<bash-stdout>", "<system-reminder>")
_CWD = re.compile(rb'"cwd":("(?:[^"\\]|\\.)*")')
_TEXT = re.compile(rb'"text":("(?:[^"\\]|\\.)*")')
_SIDE_FILE = 4_096
_SLUG = 200
"""Characters; of a longer path the slug is cut and has a hash behind."""
_TAIL = 65_536
"""Bytes of the end that are looked through where the beginning does not say where it worked."""


def slug_of(directory: str) -> str:
    """The name of the directory in which Claude Code keeps what worked in a directory."""
    # JavaScript counts a letter beyond the first plane as two.
    return "".join(
        letter if letter.isascii() and letter.isalnum() else "-" * (1 + (ord(letter) > 0xFFFF))
        for letter in directory
    )


def is_slug_of(name: str, directory: str) -> bool:
    """Whether Claude Code may keep in a directory of this name what worked in a directory."""
    slug = slug_of(directory)
    return name == slug or (len(slug) > _SLUG and name.startswith(slug[:_SLUG]))


def read_metadata(
    file: FoundFile, directory: Path | None, budget: ReadBudget
) -> HistorySession | None:
    """The facts but the title that was given; None: of another directory, or no conversation."""
    cwd, first, version, started = _head(file, budget)
    if cwd is None or not is_slug_of(file.path.parent.name, cwd):
        # A first prompt with a picture in it may be longer than what is read; and a project that
        # was moved together with its sessions tells its new place where it went on.
        cwd = _last_cwd(file, budget) or cwd
    if directory is not None and not is_same_place(cwd, directory):
        return None  # two directories can have one slug
    if cwd is None and first is None and not budget.is_spent:
        return None
    return HistorySession(
        agent="claude",
        id=file.path.stem,
        path=str(file.path),
        cwd=cwd,
        title=make_title(first),
        started=started or file.changed,
        updated=file.changed,
        size=file.size,
        version=version,
    )


def with_title(past: HistorySession, budget: ReadBudget) -> HistorySession:
    """The same with the title that it was given, and whether it was put away."""
    beside = Path(past.path).with_suffix("")
    given = archived = None
    if beside.is_dir():
        given = as_map(read_json(beside / "custom-title.json", budget, most=_SIDE_FILE))
        archived = as_map(read_json(beside / "archived.json", budget, most=_SIDE_FILE))
    title = make_title(as_text(as_map(given).get("customTitle"))) or _told_title(past, budget)
    return replace(
        past, title=title or past.title, archived=as_map(archived).get("archived") is True
    )


def prompt_text(entry: Mapping[str, Any]) -> str:
    """What a person said, as text; empty if the entry is none of that."""
    blocks = blocks_of(as_map(entry.get("message")).get("content"))
    words = "\n".join(as_text(one.get("text")) for one in blocks if one.get("type") == "text")
    command = _COMMAND.search(words)
    if command is not None:
        arguments = _ARGUMENTS.search(words)
        return f"{command[1]} {arguments[1] if arguments else ''}".strip()
    return "" if words.startswith((*_OUTPUT, INTERRUPTED)) else words


def blocks_of(content: object) -> list[Mapping[str, Any]]:
    """The blocks of a message, which may be a text alone."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_map(one) for one in as_list(content)]


def _head(file: FoundFile, budget: ReadBudget) -> tuple[str | None, str | None, str | None, int]:
    """Where it worked, what was said first, the version and the beginning, as far as told."""
    cwd = first = version = None
    started = 0
    for line in head_lines(file.path, budget):
        entry = as_map(decode_json(line)) or _cut(line)
        started = started or parse_time(entry.get("timestamp"))
        cwd = cwd or as_text(entry.get("cwd")) or None
        version = version or as_text(entry.get("version")) or None
        if entry.get("type") == "user" and not _is_made(entry):
            first = first or prompt_text(entry) or None
        if cwd and first:
            break
    return cwd, first, version, started


def _is_made(entry: Mapping[str, Any]) -> bool:
    """Whether the program wrote it in a person's name."""
    return any(entry.get(mark) for mark in ("isMeta", "isSidechain", "isCompactSummary"))


def _cut(line: bytes) -> Mapping[str, Any]:
    """What the beginning of an entry tells whose end is not read; strings in it are escaped."""
    if b'"type":"user"' not in line:
        return {}
    cwd, words = _CWD.search(line), _TEXT.search(line)
    content = [{"type": "text", "text": decode_json(words[1])}] if words else []
    return {
        "type": "user",
        "cwd": decode_json(cwd[1]) if cwd else None,
        "message": {"content": content},
    }


def _last_cwd(file: FoundFile, budget: ReadBudget) -> str | None:
    """Where it worked last of the places whose sessions are kept here, as far as the end tells."""
    for line in tail_lines(file.path, file.size, budget, most=_TAIL):
        cwd = as_text(as_map(decode_json(line)).get("cwd"))
        if cwd and is_slug_of(file.path.parent.name, cwd):
            return cwd
    return None


def _told_title(past: HistorySession, budget: ReadBudget) -> str | None:
    """The best title that the end of the file tells."""
    told: dict[str, str] = {}
    for line in tail_lines(Path(past.path), past.size or 0, budget):
        for kind, title in _titles(as_map(decode_json(line))):
            told.setdefault(kind, title)
    last = told.pop("last-prompt", None)
    for kind in TITLES:
        if kind in told:
            return told[kind]
    return last if past.title is None else None


def _titles(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind = as_text(entry.get("type"))
    field = {**TITLES, "last-prompt": "lastPrompt"}.get(kind, "")
    if title := make_title(as_text(entry.get(field))):
        yield kind, title
