"""What a word in the input can become: a file after ``@``, a command after ``/``."""

import asyncio
import heapq
import os
import re
import time
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError

from .mentions import format_mention

if TYPE_CHECKING:
    from quarterdeck.wire.settings import Command as AgentCommand

    from .context import WorkbenchContext
    from .panels.panel import Panel

__all__ = [
    "MOST_FILES",
    "CompletionChoice",
    "CompletionSource",
    "CompletionWord",
    "FileIndex",
    "find_completion_word",
    "list_files",
    "list_recent_files",
    "rank_names",
    "score_name",
]

MOST_FILES = 50_000
_SHOWN = 50
_FRESH = 15.0
"""Seconds for which a list of files is used."""
_MOST_SCORED = 1_000
"""Names whose letters are weighed one by one."""
_RECENT_COMMITS = 20
"""Commits whose files come first."""
_PASSED_OVER = frozenset({".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"})


class CompletionWord(Struct, frozen=True, kw_only=True):
    """A word that can be completed, before the cursor."""

    kind: Literal["file", "command"]
    typed: str
    """Without its sign."""
    start: int
    """The column of its sign."""


class CompletionChoice(Struct, frozen=True, kw_only=True):
    """Something that a word can become."""

    text: str
    """What is written in place of the word, sign and all."""
    name: str
    help: str = ""
    origin: str = ""
    """Whose it is, where that is not clear."""
    path: str = ""
    """The file that it is, absolute; empty: it is none."""


def find_completion_word(line: str, column: int, *, is_first: bool) -> CompletionWord | None:
    """The word before the cursor if it can be completed; ``is_first``: it is the first line."""
    before = line[:column]
    if is_first and before.startswith("/") and not any(c.isspace() for c in before):
        return CompletionWord(kind="command", typed=before[1:], start=0)
    at = before.rfind("@")
    if at < 0 or (at and not before[at - 1].isspace()):
        return None
    typed = before[at + 1 :]
    if typed.startswith('"'):
        return None if '"' in typed[1:] else CompletionWord(kind="file", typed=typed[1:], start=at)
    if any(c.isspace() for c in typed):
        return None
    return CompletionWord(kind="file", typed=typed, start=at)


def score_name(typed: str, name: str) -> int | None:
    """How well a name fits what was typed, 0 being best; None: not at all.

    All letters must be there in order; fewer letters between them, in the last part of a path and
    at the beginning of words are better.
    """
    lower = name.lower()
    base = lower.rfind("/") + 1
    at = lower.find(typed, base)
    if at >= 0:
        return (at - base) + len(lower) - base
    at = lower.find(typed)
    if at >= 0:
        return 1_000 + at + len(lower)
    at, gaps, last = -1, 0, -1
    for letter in typed:
        at = lower.find(letter, at + 1)
        if at < 0:
            return None
        gaps += at - last - 1
        last = at
    return 2_000 + 4 * gaps + len(lower)


def rank_names(typed: str, names: Iterable[str], most: int = _SHOWN) -> list[str]:
    """The names that fit best, the best first."""
    typed = typed.lower()
    scored = ((score_name(typed, name), name) for name in names)
    fitting = ((points, name) for points, name in scored if points is not None)
    return [name for _, name in heapq.nsmallest(most, fitting)]


def list_files(cwd: str) -> list[str]:
    """The files of a directory and below that git does not ignore; bounded. Blocks."""
    from quarterdeck.system.errors import GitError
    from quarterdeck.system.git.repository import ask_git

    words = ["ls-files", "-co", "--exclude-standard", "--deduplicate", "-z"]
    try:
        data = ask_git(cwd, words, most=8_000_000, seconds=5.0).data
    except GitError:
        return _walk(cwd)
    names = data.decode("utf-8", "surrogateescape").split("\0")
    return [name for name in names if name][:MOST_FILES]


def _walk(cwd: str) -> list[str]:
    found: list[str] = []
    until = time.monotonic() + 5.0
    for where, directories, files in os.walk(cwd):
        directories[:] = sorted(d for d in directories if d not in _PASSED_OVER)
        relative = os.path.relpath(where, cwd)
        found += [name if relative == "." else f"{relative}/{name}" for name in sorted(files)]
        if len(found) >= MOST_FILES or time.monotonic() > until:
            break
    return found[:MOST_FILES]


def list_recent_files(cwd: str) -> tuple[frozenset[str], frozenset[str]]:
    """The files below a directory that are changed or new, and those of the last commits. Blocks.

    None of either where git cannot tell.
    """
    from quarterdeck.system.errors import GitError
    from quarterdeck.system.git.repository import ask_git

    found: list[frozenset[str]] = []
    for words in (
        ["ls-files", "-mo", "--exclude-standard", "--deduplicate", "-z"],
        ["log", "--relative", "--name-only", "--format=", "-z", f"-n{_RECENT_COMMITS}"],
    ):
        try:
            data = ask_git(cwd, words, most=2_000_000, seconds=5.0).data
        except GitError:
            data = b""
        names = data.decode("utf-8", "surrogateescape").split("\0")
        found.append(frozenset(name.strip("\n") for name in names))
    return found[0], found[1]


class FileIndex:
    """Names of files, ready to be searched at every key.

    In order: files that are changed, then those of the last commits, then all others; of each the
    short names first. A search goes from the best kind of match to the weakest and stops when it
    has enough, so that it costs a few milliseconds with 20,000 files.
    """

    def __init__(
        self,
        names: Iterable[str],
        changed: Collection[str] = frozenset(),
        recent: Collection[str] = frozenset(),
    ) -> None:
        def order(name: str) -> tuple[bool, bool, int, str]:
            return name not in changed, name not in recent, len(name.rpartition("/")[2]), name

        self.names = sorted(names, key=order)
        self._paths = [_fold(name) for name in self.names]
        self._bases = [path.rpartition("/")[2] for path in self._paths]
        self._all = list(range(len(self.names)))
        self._last: tuple[str, list[int]] = ("", self._all)
        """Letters that were typed, and the names that have them in order."""

    @classmethod
    def build(cls, cwd: str) -> "FileIndex":
        """The index of a directory. Blocks."""
        return cls(list_files(cwd), *list_recent_files(cwd))

    def search(self, typed: str, most: int = _SHOWN) -> list[str]:
        """The names that fit best, the best first."""
        typed = _fold(typed)
        if not typed:
            return self.names[:most]
        before, places = self._last
        if not typed.startswith(before):
            places = self._all
        paths, bases = self._paths, self._bases
        found: dict[int, None] = {}
        for tier in (
            (at for at in places if bases[at].startswith(typed)),
            (at for at in places if typed in bases[at]),
            (at for at in places if typed in paths[at]),
            self._scattered(typed, places),
        ):
            found.update(dict.fromkeys(islice(tier, most)))
            if len(found) >= most:
                break
        return [self.names[at] for at in islice(found, most)]

    def _scattered(self, typed: str, places: Sequence[int]) -> Iterator[int]:
        """Those that have the letters in order, in the last part of the path first, the closest
        together first. What goes on from this search asks these alone.
        """
        find = re.compile(_letters(typed)).match
        paths, bases = self._paths, self._bases
        places = [at for at in places if find(paths[at])]
        self._last = (typed, places)
        within = (at for at in places if find(bases[at]))
        for candidates, texts in ((within, bases), (places, paths)):
            scored = (
                (score_name(typed, texts[at]), rank, at)
                for rank, at in enumerate(islice(candidates, _MOST_SCORED))
            )
            for _, _, at in heapq.nsmallest(_SHOWN, (one for one in scored if one[0] is not None)):
                yield at


def _letters(typed: str) -> str:
    """A pattern for these letters in order, which never goes back."""
    return "".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in typed)


def _fold(name: str) -> str:
    """A name as it is compared: letters of any case, and composed or not, are the same."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()


class CompletionSource:
    """What can be offered in a chat: files of its agent's directory, our commands and its own."""

    def __init__(self, context: "WorkbenchContext", panel: "Panel") -> None:
        self._app_context = context
        self._panel = panel
        self._index: tuple[str, float, FileIndex] | None = None

    async def __call__(self, word: CompletionWord) -> Sequence[CompletionChoice]:
        """What a word can become, the best first. Errors of the fleet count as nothing to offer."""
        if word.kind == "file":
            return await self._named(word.typed)
        try:
            session = self._panel.session
            own = await self._app_context.pages.commands(session) if session is not None else ()
        except QuarterdeckError:
            own = ()
        return complete_command(word.typed, own)

    async def _named(self, typed: str) -> Sequence[CompletionChoice]:
        if self._app_context.remote is not None:
            return ()
        agent = self._app_context.roster.find(self._panel.session)
        cwd = agent.cwd if agent is not None else self._app_context.cwd
        known = self._index
        if known is None or known[0] != cwd:
            await self._build(cwd)
        elif time.monotonic() - known[1] > _FRESH:  # used once more, and made anew beside it
            self._index = (cwd, time.monotonic(), known[2])
            self._panel.run_worker(partial(self._build, cwd), group="file-index", exclusive=True)
        assert self._index is not None
        names = await asyncio.to_thread(self._index[2].search, typed)
        return [
            CompletionChoice(
                text=format_mention(_writable(name)),
                name=name,
                path=os.path.join(cwd, name),  # noqa: PTH118
            )
            for name in names
        ]

    async def _build(self, cwd: str) -> None:
        index = await asyncio.to_thread(FileIndex.build, cwd)
        self._index = (cwd, time.monotonic(), index)


def complete_command(typed: str, own: "Sequence[AgentCommand]") -> list[CompletionChoice]:
    """The commands that fit, ours and the agent's; a second slash is for the agent's only."""
    from .commands.registry import COMMANDS

    is_own = typed.startswith("/")
    typed = typed.removeprefix("/")
    ours = {} if is_own else {c.name: c.help for c in COMMANDS}
    taken = {c.name for c in COMMANDS}
    offers = [
        CompletionChoice(text=f"/{name}", name=f"/{name}", help=help, origin="quarterdeck")
        for name, help in ours.items()
    ]
    for command in own:
        sign = "//" if command.name in taken or is_own else "/"
        name = f"{sign}{command.name}"
        offers.append(
            CompletionChoice(text=name, name=name, help=command.description, origin="agent")
        )
    places = {
        name: at for at, name in enumerate(rank_names(typed, map(_bare, offers), most=_SHOWN))
    }
    fitting = [offer for offer in offers if _bare(offer) in places]
    return sorted(fitting, key=lambda offer: places[_bare(offer)])


def _bare(offer: CompletionChoice) -> str:
    return offer.name.lstrip("/")


def _writable(name: str) -> str:
    """A name that can stand in a prompt: bytes that are no text become an escape."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
