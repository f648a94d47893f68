"""The custom widgets there are, which of them a person has approved, and what became of each.

A widget is known by the digest of its source: what was approved is what runs, from memory, and
the same name with other words waits for the person again. Everything that touches files blocks.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.private_files import write_private

from ..panels.kinds import KINDS

if TYPE_CHECKING:
    from quarterdeck.config.places import Places

__all__ = ["CustomWidgetError", "WidgetLibrary", "WidgetOutcome", "WidgetSource"]

WidgetOutcome: TypeAlias = Literal["ready", "loaded", "needs approval", "failed"]
"""``ready``: approved and not yet shown."""

MOST_BYTES = 300_000
_MOST_FILES = 200
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class CustomWidgetError(QuarterdeckError):
    """A custom widget that cannot be taken or used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WidgetSource:
    """A widget's words."""

    name: str
    text: str
    digest: str
    path: Path
    by: str | None = None
    """The agent that offered it; None: a file of the person."""
    problem: str | None = None
    """Why it cannot even be read."""


class _File(Struct, kw_only=True):
    v: int = 1
    approved: dict[str, str] = {}
    """Digests by name."""
    broken: dict[str, str] = {}
    """Why a source is not run any more, by its digest."""
    offered_by: dict[str, str] = {}


class WidgetLibrary:
    """What is in the folder of widgets, what agents offer, and what the person said."""

    def __init__(self, places: "Places") -> None:
        self.folder = places.config / "widgets"
        """The person's own files; also where an approved offer goes."""
        self._offers = places.state / "workbench" / "offered-widgets"
        self._path = places.state / "workbench" / "widgets.json"
        self._file = _File()
        self.sources: dict[str, WidgetSource] = {}
        self.offered: dict[str, WidgetSource] = {}
        self.failures: dict[str, str] = {}
        """Why a widget failed in this run, by its digest."""
        self.loaded: set[str] = set()
        """Digests of those that are shown or were."""
        self._watchers: list[Callable[[], None]] = []

    def scan(self) -> "WidgetLibrary":
        """Read the folders and what was approved. Blocks; never raises for what is in them."""
        try:
            self._file = decode_json(self._path.read_bytes(), _File)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            self._file = _File()  # nothing counts as approved then
        self.sources = {one.name: one for one in _read_all(self.folder)}
        self.offered = {one.name: one for one in _read_all(self._offers, self._file.offered_by)}
        return self

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each change; returns what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def notify_watchers(self) -> None:
        """Something changed; for callers of what blocks, back on their own thread."""
        for watcher in list(self._watchers):
            watcher()

    @property
    def names(self) -> list[str]:
        """Every widget there is, offered ones too."""
        return sorted({*self.sources, *self.offered})

    def outcome(self, name: str) -> tuple[WidgetOutcome, str]:
        """What became of a widget, and why."""
        source = self.sources.get(name)
        if source is None:
            return "needs approval", f"offered by {self.offered[name].by or 'an agent'}"
        if source.problem is not None:
            return "failed", source.problem
        if self._file.approved.get(name) != source.digest:
            is_new = name not in self._file.approved
            return "needs approval", "new" if is_new else "it changed since you approved it"
        if (why := self._file.broken.get(source.digest)) is not None:
            return "failed", f"{why}; approve it again to retry"
        if (why := self.failures.get(source.digest)) is not None:
            return "failed", why
        return ("loaded" if source.digest in self.loaded else "ready"), ""

    def usable(self, name: str) -> WidgetSource:
        """The source to run. Raises CustomWidgetError: it may not or cannot be run."""
        if name not in self.sources and name not in self.offered:
            raise CustomWidgetError(f"widget {name!r} is no longer in {str(self.folder)!r}")
        outcome, why = self.outcome(name)
        if outcome == "needs approval":
            raise CustomWidgetError(f"{why}; review it with /widget approve {name}")
        if outcome == "failed":
            raise CustomWidgetError(why)
        return self.sources[name]

    def waiting(self, name: str) -> WidgetSource:
        """What an approval would be about. Raises CustomWidgetError: nothing to approve."""
        source = self.offered.get(name) or self.sources.get(name)
        if source is None:
            raise CustomWidgetError(
                f"no widget {name!r}; available: {', '.join(self.names) or 'none'}"
            )
        if source.problem is not None:
            raise CustomWidgetError(f"cannot use widget {name!r}: {source.problem}")
        return source

    def approve(self, source: WidgetSource) -> None:
        """Let exactly this source run from now on. Blocks. Raises CustomWidgetError."""
        file = self._file
        try:
            if source.name in self.offered:
                write_private(self.folder / f"{source.name}.py", source.text)
                (self._offers / f"{source.name}.py").unlink(missing_ok=True)
            file.approved[source.name] = source.digest
            file.broken.pop(source.digest, None)
            file.offered_by.pop(source.name, None)
            self._write()
        except OSError as error:
            raise CustomWidgetError(f"cannot save widget {source.name!r}: {error}") from error
        self.failures.pop(source.digest, None)
        self.scan()

    def forget(self, name: str) -> None:
        """Let a widget run no more, and drop what was offered under its name. Blocks."""
        try:
            (self._offers / f"{name}.py").unlink(missing_ok=True)
            self._file.approved.pop(name, None)
            self._file.offered_by.pop(name, None)
            self._write()
        except OSError as error:
            raise CustomWidgetError(f"cannot forget widget {name!r}: {error}") from error
        self.scan()

    def offer(self, name: str, text: str, *, by: str | None = None) -> WidgetSource:
        """Keep source from an agent until the person has seen it; nothing of it is run. Blocks.

        Raises:
            CustomWidgetError: the name or the source cannot be taken.
        """
        problem = explain_bad_name(name) or _why_bad_text(text)
        if problem is not None:
            raise CustomWidgetError(f"widget {name!r}: {problem}")
        path = self._offers / f"{name}.py"
        self.scan()  # another workbench may have written meanwhile
        try:
            write_private(path, text)
            if by is not None:
                self._file.offered_by[name] = by
            self._write()
        except OSError as error:
            raise CustomWidgetError(f"cannot save widget {name!r}: {error}") from error
        self.scan()
        return self.offered[name]

    def disable(self, source: WidgetSource, why: str) -> None:
        """Do not run this source again until it is approved anew. Blocks. Raises OSError."""
        self._file.broken[source.digest] = why
        for old in list(self._file.broken)[:-_MOST_FILES]:
            del self._file.broken[old]
        self._write()

    def _write(self) -> None:
        write_private(self._path, msgspec.json.format(msgspec.json.encode(self._file)).decode())


def explain_bad_name(name: str) -> str | None:
    """Why a widget cannot have a name."""
    if _NAME.fullmatch(name) is None:
        return "use lower-case letters, digits, - and _, start with a letter, at most 40 characters"
    return f"{name!r} is built in; choose another name" if name in KINDS else None


def _why_bad_text(text: str) -> str | None:
    if len(text) > MOST_BYTES:
        return f"it is longer than {MOST_BYTES} characters"
    return "it contains a null character" if "\0" in text else None


def _read_all(folder: Path, by: dict[str, str] | None = None) -> list[WidgetSource]:
    try:
        paths = sorted(folder.glob("*.py"))[:_MOST_FILES]
    except OSError:
        return []
    return [_read(path, (by or {}).get(path.stem)) for path in paths]


def _read(path: Path, by: str | None) -> WidgetSource:
    name, text, problem = path.stem, "", explain_bad_name(path.stem)
    if problem is None:
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES * 4 + 1).decode("utf-8")
            problem = _why_bad_text(text)
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot read it: {error}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return WidgetSource(name=name, text=text, digest=digest, path=path, by=by, problem=problem)
