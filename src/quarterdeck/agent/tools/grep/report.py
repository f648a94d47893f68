"""What a search found, as the model is told."""

from collections.abc import Iterable, Iterator
from typing import Literal

from ..truncate import keep_head
from .search import FileMatches
from .sweep import FILE_BYTES, Skipped

__all__ = ["Report"]

_NARROW = "narrow it down with path, glob or pattern"


class Report:
    """Collects matches, file by file, up to a limit; counts all of them."""

    def __init__(
        self,
        mode: Literal["content", "files", "count"],
        limit: int,
        *,
        is_multiline: bool = False,
        has_context: bool = False,
    ) -> None:
        self._has_context = has_context
        self._mode = mode
        self._limit = limit
        self._unit = "matches" if is_multiline else "matching lines"
        self._rows: list[str] = []
        self._shown = 0
        self._matches = 0
        self._files = 0
        self._skipped: dict[Skipped, int] = {"large": 0, "unreadable": 0}

    def add(self, path: str, found: FileMatches | Skipped) -> None:
        """Take in what was found in the next file."""
        if isinstance(found, str):
            self._skipped[found] += 1
            return
        if not found.total:
            return
        self._matches += found.total
        self._files += 1
        if self._mode == "content":
            self._add_content(path, found)
        elif self._shown < self._limit:
            self._shown += 1
            self._rows.append(path if self._mode == "files" else f"{path}:{found.total}")

    def text(self, pattern: str, where: str, notes: Iterable[str]) -> str:
        """The result, and what is missing from it."""
        after = [*self._skips(), *notes]
        if not self._files:
            return "\n".join([f"Nothing in {where} matches {pattern!r}.", *after])
        kept = keep_head(self._rows, max_lines=len(self._rows))
        found = f"{self._matches} {self._unit} in {self._files} files"
        shown_all = self._shown == (self._matches if self._mode == "content" else self._files)
        if not kept.is_whole:
            after.insert(0, f"({found}; only the first {kept.lines} lines are shown: {_NARROW})")
        elif not shown_all:
            after.insert(0, f"({found}; only the first {self._shown} are shown: {_NARROW})")
        elif self._mode == "count":
            after.insert(0, f"({found})")
        return "\n".join([kept.text, *after])

    def _add_content(self, path: str, found: FileMatches) -> None:
        room = self._limit - self._shown
        previous = -1
        for row in found.rows:
            if row.near > room:
                continue
            if self._has_context and self._rows and row.number != previous + 1:
                self._rows.append("--")
            sign = ":" if 0 < row.match <= room else "-"
            self._rows.append(f"{path}{sign}{row.number}{sign}{row.text}")
            previous = row.number
        self._shown += min(found.total, room)

    def _skips(self) -> Iterator[str]:
        if count := self._skipped["large"]:
            yield f"({count} files are larger than {FILE_BYTES} bytes and were not searched)"
        if count := self._skipped["unreadable"]:
            yield f"({count} files could not be read)"
