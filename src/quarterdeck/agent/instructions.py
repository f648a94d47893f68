"""Instructions files: what the person and the project want, sent at the start or when they apply.

At the start the model is sent the user's own file and those from the top of the project down to
the directory the session works in. Those of other directories are sent when the agent first
touches a file below them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quarterdeck.system.file_reader import read_regular_file
from quarterdeck.wire.events import ContextAdded, Event, NoticePosted

from .system_prompt import InstructionsFile

if TYPE_CHECKING:
    from .conversation import Conversation

__all__ = ["INSTRUCTIONS_FILES", "InitialInstructions", "NestedInstructions", "gather_instructions"]

INSTRUCTIONS_FILES = ("AGENTS.md", "CLAUDE.md")
_MOST = 100_000
"""Characters of all files that are sent at the start."""
_MOST_NESTED = 16_000
"""Characters of a file that is sent later."""
_MOST_LATER = 64_000
"""Characters of all files that are sent later, in one session."""
_MOST_IMPORTS = 10
_IMPORT = r"(?<![\w`@])@([\w.~/-]*[\w-])"
_FENCE = r"(?ms)^(```|~~~).*?^\1"


class InitialInstructions(Struct, eq=False):
    """The files that are sent at the start."""

    found: list[InstructionsFile] = field(default_factory=list[InstructionsFile])
    paths: set[Path] = field(default_factory=set[Path])
    """Where they really are."""
    problems: list[str] = field(default_factory=list[str])
    """What people should know of those that are cut or left out."""
    room: int = _MOST

    def add(self, path: Path, shown: str, within: Path) -> None:
        """Read a file and those that it names with an ``@``, one level deep; once each.

        Nothing outside of ``within`` is imported: it would be sent to a vendor.
        """
        text = self._read(path, shown)
        if text is None:
            return
        for name in tuple(dict.fromkeys(re.findall(_IMPORT, re.sub(_FENCE, "", text))))[
            :_MOST_IMPORTS
        ]:
            target = (path.parent / name).resolve()
            if target.is_file() and target.is_relative_to(within.resolve()):
                self._read(target, f"{name} (named in {shown})")

    def _read(self, path: Path, shown: str) -> str | None:
        try:
            real = path.resolve()
            if real in self.paths or not real.is_file():
                return None
            text = _text_of(real, _MOST + 1)
        except OSError as error:
            self.problems.append(f"{shown} cannot be read: {error.strerror or error}")
            return None
        self.paths.add(real)
        if not text.strip() or any(text == earlier.text for earlier in self.found):
            return text
        if len(text) > self.room:
            self.problems.append(f"{shown} is truncated: instructions may have {_MOST} characters")
        kept, self.room = text[: self.room], max(0, self.room - len(text))
        if kept:
            self.found.append(InstructionsFile(path=shown, text=kept))
        return text


def gather_instructions(
    *, root: Path, cwd: Path, own: Path, files: Iterable[str], trusted: bool
) -> InitialInstructions:
    """Gather what is sent at the start. Blocks.

    Args:
        root: the top of the project.
        cwd: where the session works, in the project.
        own: the user's directory, whose ``AGENTS.md`` always counts.
        files: further files, as the configuration names them.
        trusted: whether the project's files count.
    """
    gathered = InitialInstructions()
    gathered.add(own / INSTRUCTIONS_FILES[0], str(own / INSTRUCTIONS_FILES[0]), own)
    if not trusted:
        return gathered
    for folder in _chain(root, cwd.resolve()):
        for name in INSTRUCTIONS_FILES:
            path = folder / name
            gathered.add(path, str(path.relative_to(root)), root)
    for name in files:
        gathered.add(root / Path(name).expanduser(), name, root)
    return gathered


def _chain(root: Path, directory: Path) -> Iterator[Path]:
    """The directories from the top of the project down to one in it; only the top elsewhere."""
    yield root
    if directory.is_relative_to(root):
        parts = directory.relative_to(root).parts
        for count in range(1, len(parts) + 1):
            yield root.joinpath(*parts[:count])


def _text_of(path: Path, most: int) -> str:
    data = read_regular_file(path, 4 * most)
    return data.decode("utf-8", "replace").replace("\r\n", "\n")[:most]


class NestedInstructions(Struct, kw_only=True, eq=False):
    """Sends instructions of directories when the agent first touches a file below them.

    What was sent is known from the conversation, so that a resumed session does not send it
    again.
    """

    root: Path
    known: frozenset[Path] = frozenset()
    """Files that were sent at the start."""
    _telling: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def touched(
        self,
        paths: Iterable[str],
        conversation: "Conversation",
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        """Send what applies to these files and was not sent yet in this conversation."""
        wanted = tuple(paths)
        if not wanted:
            return
        async with self._telling:  # calls run side by side, and each file is sent once
            known = frozenset(conversation.memory.added)
            spent = sum(map(len, conversation.memory.added.values()))
            for event in await asyncio.to_thread(self._find, wanted, known, spent):
                await emit(event)

    def _find(self, paths: tuple[str, ...], known: frozenset[str], spent: int) -> list[Event]:
        found: dict[str, Event] = {}
        for path in paths:
            for folder in _chain(self.root, Path(path).parent):
                for name in INSTRUCTIONS_FILES:
                    file = folder / name
                    source = str(file.relative_to(self.root))
                    if source in known or source in found or file in self.known:
                        continue
                    event = self._event(file, source, spent)
                    if event is not None:
                        found[source] = event
                        spent += len(getattr(event, "text", ""))
        return list(found.values())

    def _event(self, file: Path, source: str, spent: int) -> Event | None:
        try:
            real = file.resolve()
            if real in self.known or not real.is_relative_to(self.root) or not real.is_file():
                return None
            text = _text_of(real, _MOST_NESTED + 1)
        except OSError:
            return None
        if not text.strip():
            return None
        if spent + min(len(text), _MOST_NESTED) > _MOST_LATER:
            self.known |= {file}
            title = f"{source} is omitted: instructions already have {_MOST_LATER} characters"
            return NoticePosted(title=title, severity="warning")
        cut = "\n[The rest is omitted.]" if len(text) > _MOST_NESTED else ""
        folder = Path(source).parent
        message = (
            f"# Instructions from {source}\nThe project wrote these; they apply to work below "
            f"{folder}.\n\n{text[:_MOST_NESTED].strip()}{cut}"
        )
        return ContextAdded(source=source, text=message)
