"""Patches as git and diff write them, and the changes of a file or a work tree against a commit."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from quarterdeck.system.errors import GitError, NotARepositoryError
from quarterdeck.system.git.command import GitOutput
from quarterdeck.system.git.repository import GitRepository, expect_repository

__all__ = [
    "ChangeKind",
    "Changes",
    "ChangesQuery",
    "PatchFile",
    "PatchHunk",
    "PatchLine",
    "make_new_file_patch",
    "parse_patch",
    "read_changes",
]

ChangeKind: TypeAlias = Literal["changed", "new", "deleted", "renamed", "copied"]
PatchLine: TypeAlias = tuple[str, str]
"""A sign (space, ``+``, ``-`` or ``\\``) and the line without it."""

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$", re.DOTALL)
_KINDS: dict[str, ChangeKind] = {
    "new file mode": "new",
    "deleted file mode": "deleted",
    "rename from": "renamed",
    "copy from": "copied",
}
_ESCAPES = {
    "a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92,
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class PatchHunk:
    """Lines that belong together."""

    old: int
    """The first line of the old file, from 1; 0 where there is none."""
    new: int
    where: str = ""
    """The function or section it is in, as the patch says."""
    lines: list[PatchLine] = field(default_factory=list[PatchLine])

    @property
    def text(self) -> str:
        """The hunk as a patch has it."""
        old = sum(sign in " -" for sign, _ in self.lines)
        new = sum(sign in " +" for sign, _ in self.lines)
        head = f"@@ -{self.old},{old} +{self.new},{new} @@ {self.where}".rstrip()
        return "\n".join([head, *(sign + line for sign, line in self.lines)]) + "\n"


@dataclass(slots=True, kw_only=True)
class PatchFile:
    """What happens to one file."""

    path: str
    """Where it is afterwards, or was if it is deleted."""
    kind: ChangeKind = "changed"
    old_path: str | None = None
    """Where it was, if elsewhere."""
    head: list[str] = field(default_factory=list[str])
    """The lines before the first hunk."""
    hunks: list[PatchHunk] = field(default_factory=list[PatchHunk])
    notes: list[str] = field(default_factory=list[str])
    """What else is to be said: that it is binary, or a mode that changed."""

    @property
    def added(self) -> int:
        """How many lines come."""
        return sum(sign == "+" for hunk in self.hunks for sign, _ in hunk.lines)

    @property
    def removed(self) -> int:
        """How many lines go."""
        return sum(sign == "-" for hunk in self.hunks for sign, _ in hunk.lines)


def parse_patch(text: str) -> list[PatchFile]:
    """Read a patch; words before, between and after files are passed over.

    The counts of a hunk decide which lines are its own, so that a removed line that looks like
    the head of a file is not one. A patch that ends early gives what is there.
    """
    reader = _Reader(text.split("\n"))
    reader.read()
    return reader.files


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.files: list[PatchFile] = []
        self._lines = lines
        self._at = 0

    def read(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                self._begin(PatchFile(path=_git_path(line), head=[line]))
            elif self._is_plain_head(line):
                self._begin(PatchFile(path=_side(self._lines[self._at + 1], "b/")))
                continue
            elif self.files:
                self._part(line)
            self._at += 1

    def _begin(self, file: PatchFile) -> None:
        self.files.append(file)
        if not file.head:  # a patch without git's own line: its two paths are next
            old, new = self._lines[self._at], self._lines[self._at + 1]
            file.head = [old, new]
            self._sides(file, old, new)
            self._at += 2

    def _is_plain_head(self, line: str) -> bool:
        if not line.startswith("--- ") or self._at + 2 >= len(self._lines):
            return False
        is_head = self._lines[self._at + 1].startswith("+++ ") and bool(
            _HUNK.match(self._lines[self._at + 2])
        )
        return is_head and not (self.files and self._belongs_to_git_head())

    def _belongs_to_git_head(self) -> bool:
        file = self.files[-1]
        return bool(file.head) and file.head[0].startswith("diff --git ") and not file.hunks

    def _part(self, line: str) -> None:
        file = self.files[-1]
        if found := _HUNK.match(line):
            self._hunk(file, found)
        elif not file.hunks:
            file.head.append(line)
            self._header(file, line)

    def _header(self, file: PatchFile, line: str) -> None:
        for words, kind in _KINDS.items():
            if line.startswith(words):
                file.kind = kind
        if line.startswith(("rename from ", "copy from ")):
            file.old_path = _unquoted(line.split(" from ", 1)[1])
        elif line.startswith(("rename to ", "copy to ")):
            file.path = _unquoted(line.split(" to ", 1)[1])
        elif line.startswith("+++ ") and len(file.head) > 1 and file.head[-2].startswith("--- "):
            self._sides(file, file.head[-2], line)
        elif line.startswith(("Binary files", "GIT binary patch")):
            file.notes.append("binary; content not shown")
        elif line.startswith("new mode "):
            file.notes.append("mode changed to " + line.removeprefix("new mode "))

    def _sides(self, file: PatchFile, old: str, new: str) -> None:
        before, after = _side(old, "a/"), _side(new, "b/")
        if after == "/dev/null":
            file.path, file.kind = before, "deleted"
        else:
            file.path = after
            if before == "/dev/null":
                file.kind = "new"

    def _hunk(self, file: PatchFile, found: "re.Match[str]") -> None:
        old, olds, new, news, where = found.groups()
        hunk = PatchHunk(old=int(old), new=int(new), where=where)
        file.hunks.append(hunk)
        left_old = 1 if olds is None else int(olds)
        left_new = 1 if news is None else int(news)
        while (left_old > 0 or left_new > 0) and self._at + 1 < len(self._lines):
            line = self._lines[self._at + 1]
            sign = line[:1] or " "  # some tools cut white space at the end of a line
            if sign not in " +-\\":
                return
            self._at += 1
            hunk.lines.append((sign, line[1:]))
            left_old -= sign in " -"
            left_new -= sign in " +"
        if self._at + 1 < len(self._lines) and self._lines[self._at + 1].startswith("\\"):
            self._at += 1
            hunk.lines.append(("\\", self._lines[self._at][1:]))


def _side(line: str, prefix: str) -> str:
    # A tab ends a path that holds spaces; in quotes there is none that means itself.
    path = _unquoted(line[4:].split("\t", 1)[0])
    return path if path == "/dev/null" else path.removeprefix(prefix)


def _git_path(line: str) -> str:
    """The path in ``diff --git a/x b/x``; right where it is the same twice, else a first guess."""
    rest = line.removeprefix("diff --git ")
    if rest.endswith('"'):
        return _unquoted(rest[rest.rfind(' "') + 1 :]).removeprefix("b/")
    half = len(rest) // 2
    return rest[half + 1 :].removeprefix("b/")


def _unquoted(path: str) -> str:
    """A path as git writes it if it holds control characters or quotes."""
    if not (len(path) >= 2 and path.startswith('"') and path.endswith('"')):
        return path
    found = bytearray()
    at, inside = 0, path[1:-1]
    while at < len(inside):
        character = inside[at]
        if character != "\\" or at + 1 >= len(inside):
            found += character.encode("utf-8", "surrogateescape")
            at += 1
        elif inside[at + 1] in _ESCAPES:
            found.append(_ESCAPES[inside[at + 1]])
            at += 2
        elif re.fullmatch("[0-3][0-7]{2}", inside[at + 1 : at + 4]):
            found.append(int(inside[at + 1 : at + 4], 8))
            at += 4
        else:
            found += b"\\"
            at += 1
    return bytes(found).decode("utf-8", "surrogateescape")


def make_new_file_patch(path: str, lines: Sequence[str], notes: Iterable[str] = ()) -> PatchFile:
    """A file that git does not know yet, as a patch would show it."""
    hunks = [PatchHunk(old=0, new=1, lines=[("+", line) for line in lines])] if lines else []
    return PatchFile(path=path, kind="new", hunks=hunks, notes=["not added to git", *notes])


MOST = 3_000_000
"""Bytes of a patch that are read."""
_MOST_NEW = 200
_BIGGEST_NEW = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuery:
    """What is compared with what."""

    cwd: str
    path: str | None = None
    """One file or directory, absolute or below ``cwd``; None: all of the work tree."""
    base: str | None = None
    """A commit; None: HEAD."""
    patch: str | None = None
    """A patch to show instead of asking git."""
    ignores_space: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Files that changed, or why that is not known."""

    files: tuple[PatchFile, ...] = ()
    problem: str | None = None
    is_cut: bool = False
    """There is more than is shown."""
    against: str = ""
    """What it is compared with, in words."""


def read_changes(wanted: ChangesQuery) -> Changes:
    """Find out; never raises for what a repository can be. Blocks."""
    if wanted.patch is not None:
        is_cut = len(wanted.patch) > MOST
        return Changes(files=tuple(parse_patch(wanted.patch[:MOST])), is_cut=is_cut)
    cwd, path = _place(wanted)
    if not os.path.isdir(cwd):  # noqa: PTH112
        return Changes(problem=f"{cwd!r} is not a directory.")
    try:
        repository = expect_repository(cwd)
        place = repository.top if path is None else cwd
        return _compare(_Repository(repository, place), path, wanted)
    except NotARepositoryError:
        return Changes(problem=f"{cwd!r} is not in a git repository.")
    except GitError as error:
        return Changes(problem=str(error))


def _place(wanted: ChangesQuery) -> tuple[str, str | None]:
    """Where to ask git, and about which path: a file may be in another repository than ``cwd``."""
    if wanted.path is None:
        return wanted.cwd, None
    path = os.path.join(wanted.cwd, wanted.path)  # noqa: PTH118 - a name may be no valid text
    return (path, ".") if os.path.isdir(path) else os.path.split(path)  # noqa: PTH112


class _Repository:
    """One repository, asked from one of its directories."""

    def __init__(self, repository: GitRepository, cwd: str) -> None:
        self.top = repository.top
        self._repository = repository
        self._cwd = cwd

    def __call__(self, words: list[str], most: int = 4_000_000) -> GitOutput:
        return self._repository.ask(words, cwd=self._cwd, most=most)


def _compare(ask: _Repository, path: str | None, wanted: ChangesQuery) -> Changes:
    only = ["--", f":(literal){path}" if path != "." else "."] if path is not None else ["--"]
    base, against = _base(ask, wanted.base)
    words = ["diff", "--find-renames", "--patch", "--src-prefix=a/", "--dst-prefix=b/"]
    words += ["-w"] if wanted.ignores_space else []
    answer = ask([*words, base, *only], MOST)
    files = parse_patch(answer.data.decode("utf-8", "surrogateescape"))
    new, more = _new_files(ask, only)
    return Changes(files=(*files, *new), is_cut=answer.is_cut or more, against=against)


def _base(ask: _Repository, base: str | None) -> tuple[str, str]:
    """A commit to compare with; of a repository without one: nothing at all."""
    name = base or "HEAD"
    try:
        words = ["rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"]
        return ask(words).data.decode().strip(), name
    except GitError:
        if base is not None:
            raise GitError(f"no branch or commit {base!r} here.") from None
    empty = ask(["hash-object", "-t", "tree", "/dev/null"]).data.decode().strip()
    return empty, "nothing (no commits yet)"


def _new_files(ask: _Repository, only: list[str]) -> tuple[list[PatchFile], bool]:
    words = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z", *only]
    answer = ask(words, 1_000_000)
    names = [os.fsdecode(name) for name in answer.data.split(b"\0")[:-1]]
    found = [_new_file(ask.top, name) for name in names[:_MOST_NEW]]
    return found, answer.is_cut or len(names) > _MOST_NEW


def _new_file(top: str, name: str) -> PatchFile:
    from .file.model import FilePanelReadError, FileReader

    reader = FileReader(f"{top}/{name}")
    try:
        facts = reader.open()
        if facts.is_binary or facts.size > _BIGGEST_NEW:
            kind = "binary" if facts.is_binary else "big"
            return make_new_file_patch(name, (), [f"{kind}, {facts.size:,} bytes"])
        return make_new_file_patch(name, reader.first().lines if facts.size else ())
    except FilePanelReadError as error:
        return make_new_file_patch(name, (), [str(error)])
